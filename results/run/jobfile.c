/*
 * jobfile.c - a job file and the cells that it stands for.
 *
 * A job file is INI: [defaults], then one [section] a group of cells. A key is an option of
 * `mvbench run`; its value a list, of which a..b is a range of whole numbers. A section's cells are
 * all combinations of its lists; what it does not set comes from [defaults], and what the command
 * line sets replaces both. Equal cells are run once.
 *
 * A section [search] makes no cells: its values are ranges, which mvbench tune draws from.
 */
#include "results/run/study.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS_MAX = 20000, RANGE_MAX = 10000 };

/* ---- Reading a job file -------------------------------------------------- */

/* One key and the values that it takes in turn. */
struct axis {
	char *name;
	char **value;
	size_t n;
	int line; /* 0: the command line */
};

struct section {
	char *name;
	int line;
	struct axis *axis;
	size_t axes;
};

struct job {
	const char *path;
	struct section *section; /* the first is [defaults], whether it stands there or not */
	size_t sections;
	struct search *search; /* NULL: a file of a sweep, which has none */
	bool searching;        /* the lines are [search]'s */
	int search_line;       /* 0: there is none */
	FILE *file;
	int line;
	char *wrong; /* the first thing that is */
};

static void axis_free(struct axis *a)
{
	free(a->name);
	for (size_t i = 0; i < a->n; i++)
		free(a->value[i]);
	free(a->value);
}

static void section_add(struct job *j, char *name, int line)
{
	APPEND(j->section, j->sections, (struct section){.name = name, .line = line});
}

static void section_fini(struct section *s)
{
	for (size_t k = 0; k < s->axes; k++)
		axis_free(&s->axis[k]);
	free(s->axis);
	free(s->name);
}

static void job_free(struct job *j)
{
	for (size_t i = 0; i < j->sections; i++)
		section_fini(&j->section[i]);
	free(j->section);
}

/* Is this "a..b" with whole numbers? */
static bool range_of(const char *text, long long *a, long long *b)
{
	int end = 0;
	return sscanf(text, "%lld..%lld%n", a, b, &end) == 2 && text[end] == '\0' &&
	       !isspace((unsigned char)*text);
}

/* One value of the list, or a range of them; each is checked. */
static char *axis_item(struct axis *a, char *item, bool whole, const struct option **o)
{
	long long from, to;
	if (whole || !range_of(item, &from, &to)) {
		APPEND(a->value, a->n, must(strdup(item)));
		return config_check(a->name, item, o);
	}
	if (to < from || to - from >= RANGE_MAX)
		return sentence("%s: the range %s does not rise, or is longer than %d", a->name,
				item, RANGE_MAX);
	for (long long x = from; x <= to; x++) {
		APPEND(a->value, a->n, sentence("%lld", x));
		TRY(config_check(a->name, a->value[a->n - 1], o));
	}
	return NULL;
}

/* Cuts "1, 4..6" into values. A label or a file's name may have commas: where one value is all
 * there can be, it is the whole text. */
static char *axis_cut(struct axis *a, const char *list)
{
	const struct option *o = option_find(run_options, a->name);
	const bool whole = o && o->type == OPT_STRING && o->incidental;
	for (const char *at = list, *next;; at = next + 1) {
		size_t n = strcspn(at, whole ? "" : ",");
		next = at + n;
		while (n > 0 && isspace((unsigned char)*at))
			at++, n--;
		while (n > 0 && isspace((unsigned char)at[n - 1]))
			n--;
		char *item AUTOFREE = must(strndup(at, n));
		if (n == 0 && (*next == ',' || a->n > 0))
			return sentence("%s: the list \"%s\" has an empty place", a->name, list);
		TRY(axis_item(a, item, whole, &o));
		if (*next == '\0')
			break;
	}
	if (o->incidental && a->n > 1)
		return sentence("%s: one value is wanted; runs that differ in nothing else are one",
				a->name);
	return NULL;
}

/* Returns NULL or what is wrong. */
static char *axis_read(struct axis *a, const char *name, const char *list)
{
	*a = (struct axis){.name = must(strdup(name))};
	char *wrong = axis_cut(a, list);
	if (wrong)
		axis_free(a);
	return wrong;
}

static const struct axis *axis_find(const struct section *s, const char *name)
{
	for (size_t i = 0; i < s->axes; i++)
		if (strcmp(s->axis[i].name, name) == 0)
			return &s->axis[i];
	return NULL;
}

/* Keeps the first thing that is wrong. */
static void job_wrong(struct job *j, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static void job_wrong(struct job *j, int line, const char *fmt, ...)
{
	char *what AUTOFREE = NULL;
	va_list args;
	if (j->wrong)
		return;
	va_start(args, fmt);
	CHECK(vasprintf(&what, fmt, args) >= 0, "no memory");
	va_end(args);
	j->wrong = sentence("%s:%d: %s", j->path, line, what);
}

/* A line "[name]": sections are known from here, for inih passes over empty ones and cuts long
 * names. */
static void job_header(struct job *j, const char *text)
{
	size_t n = strcspn(text + 1, "]");
	if (text[1 + n] != ']' || n == 0)
		return job_wrong(j, j->line, "a section looks like [name]");
	char *name = must(strndup(text + 1, n));
	j->searching = strcmp(name, "search") == 0;
	if (j->searching) {
		if (j->search_line)
			job_wrong(j, j->line, "[search] stands on line %d already", j->search_line);
		else if (!j->search)
			job_wrong(j, j->line,
				  "[search] has ranges, which mvbench tune draws from; mvbench "
				  "sweep runs lists");
		j->search_line = j->line;
		free(name);
		return;
	}
	if (strcmp(name, "defaults") == 0) {
		if (j->section[0].line)
			job_wrong(j, j->line, "[defaults] stands on line %d already",
				  j->section[0].line);
		else if (j->sections > 1)
			job_wrong(j, j->line, "[defaults] stands before the other sections");
		j->section[0].line = j->line;
		free(name);
		return;
	}
	for (size_t i = 1; i < j->sections; i++)
		if (strcmp(j->section[i].name, name) == 0)
			job_wrong(j, j->line,
				  "[%s] stands on line %d already; give it another name, or put "
				  "its keys there",
				  name, j->section[i].line);
	section_add(j, name, j->line);
}

/* inih's reader: a line at a time, counted. Indentation is dropped, for to inih it would mean that
 * the line continues the value above. */
static char *job_line(char *buf, int room, void *user)
{
	struct job *j = user;
	char *line = fgets(buf, room, j->file);
	if (!line)
		return NULL;
	if (j->line++ == 0 && strncmp(line, "\xef\xbb\xbf", 3) == 0)
		memmove(line, line + 3, strlen(line + 3) + 1); /* some editors' mark of UTF-8 */
	size_t n = strlen(line), blank = strspn(line, " \t");
	if (n + 1 == (size_t)room && line[n - 1] != '\n') {
		job_wrong(j, j->line, "a line has at most %d characters", room - 2);
		return NULL;
	}
	memmove(line, line + blank, n - blank + 1);
	if (line[0] == '[')
		job_header(j, line);
	return line;
}

/* A line of [search]. */
static void job_range(struct job *j, const char *name, const char *value)
{
	struct search *s = j->search;
	struct range r;
	for (size_t i = 0; i < s->ranges; i++)
		if (strcmp(s->range[i].name, name) == 0)
			return job_wrong(j, j->line, "%s is searched already", name);
	if (s->ranges == RANGES_MOST)
		return job_wrong(j, j->line, "[search] has more than %d ranges", RANGES_MOST);
	char *wrong AUTOFREE = range_read(&r, name, value);
	APPEND(s->range, s->ranges, r);
	if (wrong)
		job_wrong(j, j->line, "%s", wrong);
}

static int job_key(void *user, const char *section, const char *name, const char *value)
{
	struct job *j = user;
	struct section *s = &j->section[j->sections - 1];
	const struct axis *before = axis_find(s, name);
	struct axis a;
	if (j->searching && !j->wrong)
		job_range(j, name, value);
	if (j->searching)
		return !j->wrong;
	if (!*section)
		job_wrong(j, j->line, "%s stands in no section; [defaults] is missing", name);
	if (before)
		job_wrong(j, j->line,
			  "%s is set on line %d already; for several values give a list", name,
			  before->line);
	if (j->wrong)
		return 0;
	char *wrong AUTOFREE = axis_read(&a, name, value);
	if (wrong) {
		job_wrong(j, j->line, "%s", wrong);
		return 0;
	}
	a.line = j->line;
	APPEND(s->axis, s->axes, a);
	return 1;
}

static char *job_read(struct job *j, const char *path, struct search *search)
{
	*j = (struct job){.path = path, .search = search, .file = fopen(path, "r")};
	if (!j->file)
		return sentence("%s: %m", path);
	section_add(j, must(strdup("defaults")), 0);
	int line = ini_parse_stream(job_line, j, job_key, j);
	if (ferror(j->file) && !j->wrong)
		j->wrong = sentence("%s: cannot be read: %m", path);
	fclose(j->file);
	if (line > 0 && !j->wrong)
		job_wrong(j, line, "neither [section] nor key = value");
	else if (line < 0 && !j->wrong)
		j->wrong = sentence("%s: cannot be read", path);
	if (!j->wrong && j->sections == 1 && j->section[0].axes == 0 && !j->search_line)
		j->wrong = sentence("%s: there is nothing in it; a job file has [sections] with "
				    "key = value lines",
				    path);
	return j->wrong;
}

/* ---- Cells --------------------------------------------------------------- */

/* Is it said already, or of a plug-in that is not this cell's? */
static bool goes_without_saying(const struct config *c, const char *name)
{
	static const char *const said[] = {"workload", "strategy", "workers"};
	const char *dot = strchr(name, '.');
	size_t n = dot ? (size_t)(dot - name) : 0;
	for (size_t i = 0; i < sizeof said / sizeof *said; i++)
		if (strcmp(name, said[i]) == 0)
			return true;
	return dot && (strncmp(name, c->run.strategy, n) != 0 || c->run.strategy[n]) &&
	       (strncmp(name, c->run.workload, n) != 0 || c->run.workload[n]);
}

/* "mlp, asgd, 2 workers, sync-every 16": what, and what varies. */
static char *describe(const struct config *c, const struct axis *const *axis, size_t axes,
		      const struct setting *setting)
{
	struct text t;
	FILE *f = text_open(&t);
	fprintf(f, "%s, %s, %lld worker%s", c->run.workload, c->run.strategy,
		(long long)c->run.workers, plural(c->run.workers));
	for (size_t i = 0; i < axes; i++)
		if (axis[i]->n > 1 && !goes_without_saying(c, setting[i].name))
			fprintf(f, ", %s %s", setting[i].name, setting[i].value);
	return text_close(&t);
}

bool sweep_add(struct sweep *s, struct config *c, const char *section, int line)
{
	struct cell cell = {.config = *c, .line = line};
	config_hash(c, cell.hash);
	for (size_t i = 0; i < s->cells; i++)
		if (strcmp(s->cell[i].hash, cell.hash) == 0) {
			config_fini(c);
			s->duplicates++;
			return false;
		}
	cell.section = must(strdup(section));
	APPEND(s->cell, s->cells, cell);
	return true;
}

/* All combinations of these axes; the last one turns fastest. */
static char *expand(struct sweep *s, const struct job *j, const struct section *section,
		    const struct axis *const *axis, size_t axes)
{
	size_t product = 1, k;
	for (size_t i = 0; i < axes && product <= CELLS_MAX; i++)
		product *= axis[i]->n;
	if (s->cells + product > CELLS_MAX)
		return sentence("%s:%d: [%s] makes more than %d cells; shorten its lists", j->path,
				section->line, section->name, CELLS_MAX);
	size_t *turn AUTOFREE = must(calloc(axes + 1, sizeof *turn));
	struct setting *setting AUTOFREE = must(calloc(axes + 1, sizeof *setting));

	do {
		struct config c;
		for (size_t i = 0; i < axes; i++)
			setting[i] = (struct setting){axis[i]->name, axis[i]->value[turn[i]]};
		char *why AUTOFREE = config_init(&c, setting, axes, true);
		if (!why && c.run.sim_replay) {
			config_fini(&c);
			why = sentence("sim.replay: a replay has the options of the run that it "
				       "repeats, and is no cell of a sweep; use mvbench run");
		}
		if (why)
			return sentence("%s:%d: [%s] %s", j->path, section->line, section->name,
					why);
		if (sweep_add(s, &c, section->name, section->line))
			s->cell[s->cells - 1].what = describe(&c, axis, axes, setting);
		for (k = axes; k > 0 && ++turn[k - 1] == axis[k - 1]->n; k--)
			turn[k - 1] = 0;
	} while (k > 0);
	return NULL;
}

static char *expand_section(struct sweep *s, const struct job *j, const struct section *section,
			    const struct section *over)
{
	const struct section *defaults = &j->section[0];
	size_t n = 0, room = defaults->axes + section->axes + over->axes;
	const struct axis **axis AUTOFREE = must(calloc(room + 1, sizeof *axis));
	for (size_t i = 0; section != defaults && i < defaults->axes; i++)
		if (!axis_find(section, defaults->axis[i].name) &&
		    !axis_find(over, defaults->axis[i].name))
			axis[n++] = &defaults->axis[i];
	for (size_t i = 0; i < section->axes; i++)
		if (!axis_find(over, section->axis[i].name))
			axis[n++] = &section->axis[i];
	for (size_t i = 0; i < over->axes; i++)
		axis[n++] = &over->axis[i];
	return expand(s, j, section, axis, n);
}

/* The command line's options as axes; a later one replaces an earlier one of its name. */
static char *read_over(const struct setting *given, size_t n, struct section *over)
{
	for (size_t i = 0; i < n; i++) {
		struct axis a;
		TRY(axis_read(&a, given[i].name, given[i].value ? given[i].value : "true"));
		size_t at = 0;
		while (at < over->axes && strcmp(over->axis[at].name, a.name) != 0)
			at++;
		if (at < over->axes) {
			axis_free(&over->axis[at]);
			over->axis[at] = a;
		} else {
			APPEND(over->axis, over->axes, a);
		}
	}
	return NULL;
}

char *study_read(const char *path, const struct setting *given, size_t n, struct sweep *s,
		 struct search *search)
{
	struct section over ENDS_WITH(section_fini) = {.name = NULL};
	struct job j ENDS_WITH(job_free) = {.section = NULL};
	TRY(settings_check(given, n));
	TRY(read_over(given, n, &over));
	TRY(job_read(&j, path, search));
	for (size_t i = j.sections > 1; i < j.sections; i++)
		TRY(expand_section(s, &j, &j.section[i], &over));
	const char *db = s->cells ? s->cell[0].config.own.db : "";
	for (size_t i = 1; i < s->cells; i++)
		if (strcmp(s->cell[i].config.own.db, db) != 0)
			return sentence("%s:%d: a sweep has one database, not %s and %s", path,
					s->cell[i].line, db, s->cell[i].config.own.db);
	return NULL;
}

char *sweep_read(const char *path, const struct setting *given, size_t n, struct sweep *s)
{
	*s = (struct sweep){.cell = NULL};
	char *wrong = study_read(path, given, n, s, NULL);
	if (wrong)
		sweep_free(s);
	return wrong;
}

void sweep_free(struct sweep *s)
{
	for (size_t i = 0; i < s->cells; i++) {
		config_fini(&s->cell[i].config);
		free(s->cell[i].section);
		free(s->cell[i].what);
	}
	free(s->cell);
	*s = (struct sweep){.cell = NULL};
}
