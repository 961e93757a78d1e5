/*
 * engine.c - sets up SimGrid for the simulator, with a platform.
 */
#include "sim/sim.h"

#include <math.h>
#include <simgrid/engine.h>
#include <simgrid/host.h>
#include <smpi/mpi.h>
#include <smpi/smpi.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xbt/config.h>

/* Up to this number of ranks SMPI chooses collectives as Open MPI does. Above it plain algorithms
 * run, because the others are millions of messages. (Sums in a segment: allreduce.c.) */
enum { RANKS_CHOOSY = 64 };

void engine_start(const char *platform, int workers)
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
	simgrid_load_platform(platform);
}

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

/* A value of the platform that depends on the size of a message. */
struct by_size {
	const char *name, *example;
	size_t least, most; /* numbers in a group, with the size */
	bool alone;         /* may be a single number */
	bool zero;          /* may be 0 */
};

/* Groups such as "0:1.5;1024:0.9", of a size and its values, which may have a unit of time. */
static bool is_by_size(const char *text, const struct by_size *f)
{
	const bool single = f->alone && !strchr(text, ':');
	size_t n = single; /* numbers of this group */
	char *end;
	for (const char *at = text;; at = end + 1) {
		double x = strtod(at, &end);
		if (end == at || !isfinite(x) || x < 0 || (x == 0 && n && (single || !f->zero)))
			return false;
		end += n++ && f->least > 2 ? strspn(end, "dhmnpsuw") : 0;
		if (!*end)
			return n >= f->least;
		if (*end == ';' && n >= f->least && !single)
			n = 0;
		else if (*end != ':' || n == f->most)
			return false;
	}
}

/* Checks the value of a property, whose name is perhaps at `at`. NULL, or an error. */
static char *try_value(const char *text, const char *at, const struct by_size *f)
{
	const size_t n = strlen(f->name);
	if (at == text || !strchr("\"'", at[-1]) || at[n] != at[-1])
		return NULL;
	const char *tag = memrchr(text, '<', (size_t)(at - text));
	char *words AUTOFREE = must(strndup(tag ? tag : at, strcspn(tag ? tag : at, ">")));
	char *is = strstr(words, "value="), quote[2] = {is ? is[6] : '\0', '\0'};
	if (!*quote)
		return NULL;
	is += 7;
	is[strcspn(is, quote)] = '\0';
	if ((!*is && f->least > 2) || is_by_size(is, f))
		return NULL;
	return sentence("%s is %s: give %s", f->name, is, f->example);
}

/* SimGrid accepts some values that it then divides by, or with which it never ends or crashes.
 * NULL, or an error. */
static char *try_values(const char *file)
{
	static const struct by_size value[] = {
		{"smpi/bw-factor", "factors by size, as in 0:1.5;1024:0.9", 2, 2, false, false},
		{"smpi/lat-factor", "factors by size, as in 0:1.5;1024:0.9", 2, 2, false, true},
		{"network/bandwidth-factor", "a factor, or factors by size, as in 0:1.5;1024:0.9",
		 2, 2, true, false},
		{"network/latency-factor", "a factor, or factors by size, as in 0:1.5;1024:0.9", 2,
		 2, true, true},
		{"smpi/os", "a time and a time per byte, by size, as in 0:2us:0", 3, SIZE_MAX,
		 false, true},
		{"smpi/ois", "a time and a time per byte, by size, as in 0:2us:0", 3, SIZE_MAX,
		 false, true},
		{"smpi/or", "a time and a time per byte, by size, as in 0:2us:0", 3, SIZE_MAX,
		 false, true}};
	char *text AUTOFREE = text_read(file);
	struct stat st;
	if (text && stat(file, &st) == 0 && (size_t)st.st_size != strlen(text))
		return sentence("it has a byte 0, so it is no text");
	for (size_t i = 0; text && i < sizeof value / sizeof *value; i++)
		for (const char *at = text; (at = strstr(at, value[i].name)); at++)
			TRY(try_value(text, at, &value[i]));
	return NULL;
}

static void try_platform(const void *file)
{
	engine_start(file, 1);
	char *wrong = try_hosts();
	if (wrong)
		write_all(STDERR_FILENO, wrong, strlen(wrong));
	_exit(wrong != NULL);
}

/* SimGrid ends the process if it cannot read a file. Therefore a child process tries it first. */
char *engine_try(const char *file)
{
	char text[4096];
	TRY(try_values(file));
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
