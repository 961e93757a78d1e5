/*
 * engine.c - sets up SimGrid for the simulator, with a platform.
 */
#include "sim/sim.h"

#include <expat.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <smpi/mpi.h>
#include <smpi/smpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xbt/config.h>

/* Up to this number of ranks SMPI chooses collectives as Open MPI does. Above it plain algorithms
 * run, because the others are millions of messages. (Sums in a segment: allreduce.c.) */
enum { RANKS_CHOOSY = 64 };

/* NULL, or an error: each host needs a speed, and a route to other hosts with finite times. SimGrid
 * computes the routes when it starts. */
static char *try_hosts(void)
{
	size_t n = sg_host_count();
	if (n == 0)
		return sentence("it has no hosts");
	sg_host_t *host = sg_host_list();
	simgrid_run();
	for (size_t i = 0; i < n; i++) {
		double speed = sg_host_get_speed(host[i]);
		if (strpbrk(sg_host_get_name(host[i]), "\"&<"))
			return sentence("host %s has a name with \", & or <",
					sg_host_get_name(host[i]));
		if (!(isfinite(speed) && speed > 0))
			return sentence("host %s has a speed of %g", sg_host_get_name(host[i]),
					speed);
		for (size_t k = 0; k < 2; k++) { /* to its neighbour, and to the first */
			sg_host_t to = host[k ? 0 : (i + 1) % n];
			if (to == host[i])
				continue;
			double latency = sg_host_get_route_latency(host[i], to),
			       bandwidth = sg_host_get_route_bandwidth(host[i], to);
			if (!(isfinite(latency) && latency >= 0 && bandwidth > 0))
				return sentence("the route from %s to %s has a latency of %g s and "
						"a bandwidth of %g bytes/s",
						sg_host_get_name(host[i]), sg_host_get_name(to),
						latency, bandwidth);
		}
	}
	return NULL;
}

/* A property of a platform's <config>: a number, or numbers by the size of a message. */
struct checked {
	const char *name, *example;
	size_t numbers; /* of a group: a size and its values; 1: a number without a size */
	double least;   /* value */
};

/* A finite number from `least` on, perhaps with a unit of time. */
static bool is_value(const char *word, double least)
{
	char *end;
	double x = strtod(word, &end);
	if (end == word || !isfinite(x) || x < least)
		return false;
	if (*end)
		end += strchr("mnpu", *end) && end[1] == 's' ? 2 : strchr("dhmsw", *end) != NULL;
	return !*end;
}

/* Groups such as "0:1.5;1024:0.9". SimGrid skips empty groups and empty numbers. */
static bool is_valid(char *text, const struct checked *s)
{
	size_t groups = 0;
	for (size_t n = strlen(text); n && strchr(" \t\n", text[n - 1]);)
		text[--n] = '\0';
	if (s->numbers == 1)
		return is_value(text, s->least);
	for (char *group, *rest = text; (group = strtok_r(rest, ";", &rest)); groups++) {
		size_t n = 0;
		for (char *word; (word = strtok_r(group, ":", &group)); n++) {
			char *end;
			long long size = strtoll(word, &end, 10);
			if (n ? !is_value(word, s->least) : *end || size < 0 || size > INT_MAX)
				return false;
		}
		if (n < s->numbers)
			return false;
	}
	return groups || s->numbers > 2;
}

/* What is read of a platform file. */
struct reading {
	XML_Parser parser;
	bool config;               /* within <config> */
	bool window;               /* of TCP */
	char *cost[MESSAGE_COSTS]; /* the text of each; NULL: it has none */
	char *wrong;
};

/* A message's costs: from a size on, a factor; or a time, and a time for each byte. */
struct steps_of_cost {
	size_t n;
	struct step_of_cost {
		double above, at, per_byte;
	} * step;
};
static const char *const cost_property[MESSAGE_COSTS] = {"smpi/lat-factor", "smpi/bw-factor",
							 "smpi/os", "smpi/ois", "smpi/or"};
static struct steps_of_cost message_costs[MESSAGE_COSTS];

static double engine_value_of(const char *word)
{
	static const struct {
		const char *name;
		double s;
	} unit[] = {{"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}, {"ps", 1e-12},
		    {"m", 60},    {"h", 3600},  {"d", 86400}, {"w", 604800}};
	char *end;
	double x = strtod(word, &end);
	for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
		if (strcmp(end, unit[i].name) == 0)
			return x * unit[i].s;
	return x;
}

static int by_size(const void *a, const void *b)
{
	const struct step_of_cost *x = a, *y = b;
	return (x->above > y->above) - (x->above < y->above);
}

static void keep_costs(const struct reading *r)
{
	for (int i = 0; i < MESSAGE_COSTS; i++) {
		struct steps_of_cost *c = &message_costs[i];
		for (char *group, *rest = r->cost[i];
		     rest && (group = strtok_r(rest, ";", &rest));) {
			const char *size = strtok_r(group, ":", &group),
				   *at = strtok_r(group, ":", &group),
				   *per_byte = strtok_r(group, ":", &group);
			c->step = must(realloc(c->step, (c->n + 1) * sizeof *c->step));
			c->step[c->n++] =
				(struct step_of_cost){strtod(size, NULL), engine_value_of(at),
						      per_byte ? engine_value_of(per_byte) : 0};
		}
		if (c->n)
			qsort(c->step, c->n, sizeof *c->step, by_size);
	}
}

double engine_factor(enum message_cost what, double bytes)
{
	const struct steps_of_cost *c = &message_costs[what];
	const bool factor = what == FACTOR_LATENCY || what == FACTOR_BANDWIDTH;
	double x = factor;
	for (size_t i = 0; i < c->n && (bytes > c->step[i].above || (i == 0 && !factor)); i++)
		x = c->step[i].at + c->step[i].per_byte * bytes;
	return x;
}

/* "latency x 1 (default), bandwidth x 0.34 to 1.09": over all lengths of messages. */
void engine_print_factors(FILE *f)
{
	static const char *const name[] = {
		[FACTOR_LATENCY] = "latency", [FACTOR_BANDWIDTH] = ", bandwidth"};
	for (int i = 0; i <= FACTOR_BANDWIDTH; i++) {
		const struct steps_of_cost *c = &message_costs[i];
		double least = engine_factor((enum message_cost)i, MESSAGE_ENVELOPE), most = least;
		for (size_t k = 0; k < c->n; k++) {
			least = fmin(least, c->step[k].at);
			most = fmax(most, c->step[k].at);
		}
		fprintf(f, "%s x %.4g", name[i], least);
		if (most > least)
			fprintf(f, " to %.4g", most);
		if (c->n == 0)
			fputs(" (default)", f);
	}
}

static bool is_among(const char *word, const char *const *list)
{
	while (*list && strcmp(*list, word) != 0)
		list++;
	return *list;
}

/* The first thing that is wrong, with its line. Takes the message over. */
static void platform_wrong(struct reading *r, char *why)
{
	if (!r->wrong)
		r->wrong = sentence("line %lu: %s", XML_GetCurrentLineNumber(r->parser), why);
	free(why);
}

/* A platform can come from other people. Only what describes machines and the costs of messages is
 * allowed: other elements and properties of SimGrid read and write files, start actors and load
 * libraries. */
static void try_names(struct reading *r, const char *element, const char **attribute)
{
	static const char *const elements[] = {"platform",
					       "config",
					       "prop",
					       "zone",
					       "AS",
					       "host",
					       "link",
					       "link_ctn",
					       "route",
					       "zoneRoute",
					       "ASroute",
					       "bypassRoute",
					       "bypassZoneRoute",
					       "bypassASroute",
					       "backbone",
					       "cluster",
					       "cabinet",
					       "peer",
					       "router",
					       "host_link",
					       NULL};
	if (!is_among(element, elements))
		platform_wrong(r, sentence("<%s>: not an element that describes machines and "
					   "links: remove it",
					   element));
	for (; *attribute; attribute += 2)
		if (strstr(*attribute, "file"))
			platform_wrong(r, sentence("%s of <%s>: a platform names no other files: "
						   "remove it",
						   *attribute, element));
}

/* SimGrid accepts some values that it then divides by, or with which it never ends or crashes. */
static void try_element(void *of, const char *element, const char **attribute)
{
	static const char *const free_of_checks[] = {"network/crosstraffic",
						     "network/loopback-bw",
						     "network/loopback-lat",
						     "network/TCP-gamma",
						     "network/weight-S",
						     "network/optim",
						     "network/maxmin-selective-update",
						     "cpu/optim",
						     "cpu/maxmin-selective-update",
						     "smpi/async-small-thresh",
						     "smpi/send-is-detached-thresh",
						     NULL};
#define FACTORS "factors by size in bytes, as in 0:1.5;1024:0.9"
#define TIMES   "a time and a time per byte, by size in bytes, as in 0:2us:0"
	static const struct checked known[] = {
		{"smpi/bw-factor", FACTORS, 2, DBL_MIN},
		{"smpi/lat-factor", FACTORS, 2, 0},
		{"smpi/os", TIMES, 3, -DBL_MAX},
		{"smpi/ois", TIMES, 3, -DBL_MAX},
		{"smpi/or", TIMES, 3, -DBL_MAX},
		{"network/bandwidth-factor", "a factor above 0", 1, DBL_MIN},
		{"network/latency-factor", "a factor", 1, 0}};
	struct reading *r = of;
	const char *name = "", *value = NULL;
	try_names(r, element, attribute);
	if (strcmp(element, "prop") != 0)
		r->config = strcmp(element, "config") == 0;
	for (; r->config && *attribute; attribute += 2)
		*(strcmp(*attribute, "id") == 0 ? &name : &value) = attribute[1];
	for (int i = 0; i < MESSAGE_COSTS && value; i++)
		if (strcmp(name, cost_property[i]) == 0) {
			free(r->cost[i]);
			r->cost[i] = must(strdup(value));
		}
	r->window |= value && strcmp(name, "network/TCP-gamma") == 0;
	bool allowed = !value || is_among(name, free_of_checks);
	for (size_t i = 0; value && i < sizeof known / sizeof *known; i++) {
		char *text AUTOFREE = must(strdup(value));
		bool is = strcmp(name, known[i].name) == 0;
		allowed |= is;
		if (!r->wrong && is && !is_valid(text, &known[i]))
			r->wrong = sentence("%s is %s: give %s", name, value, known[i].example);
	}
	if (!allowed)
		platform_wrong(r, sentence("property %s: not one of the costs of messages: remove "
					   "it",
					   name));
}

/* SimGrid has a parser of its own. What the two can read differently is refused. */
static void try_document_type(void *of, const char *name, const char *system, const char *public,
			      int inside)
{
	(void)name, (void)system, (void)public;
	if (inside)
		platform_wrong(of, sentence("the document type has declarations: remove them"));
}

static void try_section(void *of)
{
	platform_wrong(of, sentence("a CDATA section: remove it"));
}

static void try_instruction(void *of, const char *target, const char *data)
{
	(void)data;
	platform_wrong(of, sentence("<?%s?>: remove it", target));
}

/* SimGrid loads such a file as code. */
static bool is_library(const char *file)
{
	size_t n = strlen(file);
	return (n > 3 && strcmp(file + n - 3, ".so") == 0) ||
	       (n > 6 && strcmp(file + n - 6, ".dylib") == 0);
}

/* A file that cannot be read is left to SimGrid. */
static struct reading read_platform(const char *file)
{
	char part[4096];
	struct reading r = {0};
	struct stat st;
	bool plain = stat(file, &st) != 0 || S_ISREG(st.st_mode);
	FILE *f = plain && !is_library(file) ? fopen(file, "r") : NULL;
	if (!plain || is_library(file))
		r.wrong = sentence("a platform is a plain file of XML");
	if (!f)
		return r;
	XML_Parser parser = r.parser = must(XML_ParserCreate(NULL));
	XML_SetUserData(parser, &r);
	XML_SetStartDoctypeDeclHandler(parser, try_document_type);
	XML_SetStartCdataSectionHandler(parser, try_section);
	XML_SetProcessingInstructionHandler(parser, try_instruction);
	XML_SetStartElementHandler(parser, try_element);
	bool well = true;
	for (size_t n = 1; well && n > 0;) {
		n = fread(part, 1, sizeof part, f);
		well = ferror(f) || XML_Parse(parser, part, (int)n, n == 0);
	}
	if (!well && !r.wrong)
		r.wrong = sentence("line %lu: %s", XML_GetCurrentLineNumber(parser),
				   XML_ErrorString(XML_GetErrorCode(parser)));
	XML_ParserFree(parser);
	fclose(f);
	return r;
}

static void reading_free(struct reading *r)
{
	for (int i = 0; i < MESSAGE_COSTS; i++)
		free(r->cost[i]);
	free(r->wrong);
}

char *engine_start(const char *platform, int workers)
{
	char *words[] = {"mvbench-sim", "--log=root.thresh:error",
			 "--log=ker_engine.app:file:/dev/null", NULL};
	int count = 3;
	simgrid_init(&count, words);
	smpi_init_options();
	if (workers > RANKS_CHOOSY) {
		sg_cfg_set_string("smpi/allreduce", "rab_rdb");
		sg_cfg_set_string("smpi/allgather", "rdb");
		sg_cfg_set_string("smpi/gather", "ompi_binomial");
		sg_cfg_set_string("smpi/barrier", "ompi_recursivedoubling");
		sg_cfg_set_string("smpi/reduce", "binomial");
		sg_cfg_set_string("smpi/bcast", "binomial_tree");
	} else {
		sg_cfg_set_string("smpi/coll-selector", "ompi");
	}
	/* All work is charged; nothing is measured. (-1 means this only where SMPI reads it
	 * itself.) */
	sg_cfg_set_double("smpi/cpu-threshold", 1e300);
	sg_cfg_set_double("smpi/test", 0);
	sg_cfg_set_double("smpi/iprobe", 1e-6);
	sg_cfg_set_boolean("smpi/grow-injected-times", "no");
	SMPI_init();
	sg_cfg_set_string("network/model", "SMPI");
	sg_cfg_set_double("surf/precision", 1e-9);
	/* SMPI's own factors are those of one old cluster: 11.6 times the latency of long messages.
	 * The file's, if it has any, would not replace what is set here. */
	struct reading r = read_platform(platform);
	if (!r.cost[FACTOR_LATENCY])
		sg_cfg_set_string("smpi/lat-factor", "0:1");
	if (!r.cost[FACTOR_BANDWIDTH])
		sg_cfg_set_string("smpi/bw-factor", "0:1");
	if (!r.window) /* SimGrid's would limit a message to 4 MiB a round trip */
		sg_cfg_set_double("network/TCP-gamma", 1e18);
	keep_costs(&r);
	char *wrong = r.wrong;
	r.wrong = NULL;
	reading_free(&r);
	if (!wrong)
		simgrid_load_platform(platform);
	return wrong;
}

static void try_platform(const void *file)
{
	char *wrong = engine_start(file, 1);
	if (!wrong)
		wrong = try_hosts();
	if (wrong)
		write_all(STDERR_FILENO, wrong, strlen(wrong));
	_exit(wrong != NULL);
}

/* SimGrid ends the process if it cannot read a file. Therefore a child process tries it first. */
char *engine_try(const char *file)
{
	char text[4096];
	struct reading r = read_platform(file);
	char *wrong = r.wrong;
	r.wrong = NULL;
	reading_free(&r);
	TRY(wrong);
	int status = child_run(try_platform, file, text, sizeof text);
	CHECK(status != -1, "a child process: %m");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return NULL;
	/* "[0.000000] ./src/...cpp:48: [xbt_cfg/CRITICAL] what is wrong" */
	const char *words = strstr(text, "] ");
	for (const char *next;
	     words && (next = strstr(words + 2, "] ")) && next < strchrnul(words, '\n');)
		words = next;
	const char *line = words ? words + 2 : text;
	return sentence("%.*s", (int)strcspn(line, "\n"), line);
}
