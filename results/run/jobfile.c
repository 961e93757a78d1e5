/*
 * jobfile.c - reads a job file and makes its cells.
 *
 * A job file is INI: [defaults], then one [section] for each group of cells. A key is an option of
 * `mvbench run`; its value is a list (axis.c). A section's cells are all combinations of its lists.
 * Lists named in a line `zip` advance together: first value with first value. A line `exclude`
 * leaves out the cells for which all its conditions hold. A section inherits from [defaults]; the
 * command line replaces both. Equal cells run once.
 *
 * A section [search] makes no cells: its values are the ranges that mvbench tune draws from.
 */
#include "results/run/cells.h"
#include "runtime/config/plugins.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <search.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CELLS_MAX = 20000, FILE_MAX = 16 << 20 /* [bytes] */ };

/* ---- Reading a job file -------------------------------------------------- */

struct section {
	char *name;
	int line;
	struct axis *axis;
	size_t axes;
	struct axis *zip; /* values: names of lists that advance together */
	size_t zips;
	struct exclusion *exclusion;
	size_t exclusions;
};

struct job {
	const char *path;
	struct section *section; /* the first is [defaults], also if the file has none */
	size_t sections;
	void *names;           /* of the sections (tsearch) */
	struct search *search; /* NULL: a sweep, which allows no [search] */
	bool searching;        /* the current section is [search] */
	int search_line;       /* 0: no [search] so far */
	FILE *file;
	int line;
	char *wrong; /* the first error */
};

static void section_add(struct job *j, char *name, int line)
{
	APPEND(j->section, j->sections, (struct section){.name = name, .line = line});
}

static void section_fini(struct section *s)
{
	for (size_t k = 0; k < s->axes; k++)
		axis_fini(&s->axis[k]);
	for (size_t k = 0; k < s->zips; k++)
		axis_fini(&s->zip[k]);
	for (size_t k = 0; k < s->exclusions; k++)
		exclusion_fini(&s->exclusion[k]);
	free(s->axis);
	free(s->zip);
	free(s->exclusion);
	free(s->name);
}

static void job_free(struct job *j)
{
	for (size_t i = 0; i < j->sections; i++)
		section_fini(&j->section[i]);
	free(j->section);
	tdestroy(j->names, free);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Adds a text to a set (tsearch). Returns false if the text is in it. */
static bool set_add(void **set, const char *text)
{
	if (tfind(text, set, by_text))
		return false;
	must(tsearch(must(strdup(text)), set, by_text));
	return true;
}

static struct axis *axis_find(const struct section *s, const char *name)
{
	for (size_t i = 0; i < s->axes; i++)
		if (strcmp(s->axis[i].name, name) == 0)
			return &s->axis[i];
	return NULL;
}

/* Keeps the first error only. */
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

/* A line "[name]". Sections are registered here because inih skips empty ones and cuts long
 * names. */
static void job_header(struct job *j, const char *text)
{
	size_t n = strcspn(text + 1, "]");
	if (text[1 + n] != ']' || n == 0)
		return job_wrong(j, j->line, "a section looks like [name]");
	char *name = must(strndup(text + 1, n));
	int *alone = strcmp(name, "search") == 0     ? &j->search_line
		     : strcmp(name, "defaults") == 0 ? &j->section[0].line
						     : NULL;
	j->searching = alone == &j->search_line;
	if (alone) {
		if (*alone)
			job_wrong(j, j->line, "[%s] is already on line %d", name, *alone);
		else if (j->searching && !j->search)
			job_wrong(j, j->line,
				  "[search] is only for mvbench tune; mvbench sweep takes lists of "
				  "values");
		else if (!j->searching && j->sections > 1)
			job_wrong(j, j->line, "[defaults] must be the first section");
		*alone = j->line;
		free(name);
		return;
	}
	bool fresh = set_add(&j->names, name);
	for (size_t i = 1; !fresh && i < j->sections; i++)
		if (strcmp(j->section[i].name, name) == 0)
			job_wrong(j, j->line,
				  "[%s] is already on line %d; give it another name, or put "
				  "its keys there",
				  name, j->section[i].line);
	section_add(j, name, j->line);
}

/* The list of plug-ins, with the paths of files made relative to the job file's folder. Heap. */
static char *paths_from_job(const struct job *j, const char *list)
{
	const char *slash = strrchr(j->path, '/');
	struct text t;
	FILE *f = text_open(&t);
	char *all AUTOFREE = must(strdup(list)), *rest = all, *one;
	while ((one = strsep(&rest, ","))) {
		char *item AUTOFREE = text_trimmed(one, one + strlen(one));
		if (slash && plugin_is_file(item) && *item != '/' && !strchr(item, '#'))
			fprintf(f, "%.*s", (int)(slash - j->path + 1), j->path);
		fprintf(f, "%s%s", item, rest ? "," : "");
	}
	return text_close(&t);
}

static bool is_of_plugins(const char *name)
{
	return option_chooses(option_find(run_options, name)) < PART_COUNT;
}

/* Loads the plug-ins of all lines first, because other lines may have their options. */
static void load_plugins(struct job *j, bool runs)
{
	char *text AUTOFREE = NULL;
	size_t room = 0;
	for (int line = 1; !j->wrong && getline(&text, &room, j->file) >= 0; line++) {
		char *note = text;
		while ((note = strpbrk(note, " \t")) && note[1] != ';') /* as inih finds it */
			note++;
		if (note)
			*note = '\0';
		char *equals = text + strcspn(text, "=:");
		char *name AUTOFREE = text_trimmed(text, equals);
		if (*equals && strcmp(name, "data-dir") == 0) /* it may be a Python file */
			plugins_name(equals + 1, runs ? NAMED_BY_USER : NAMED_BY_JOB);
		if (!*equals || !is_of_plugins(name))
			continue;
		char *list AUTOFREE = paths_from_job(j, equals + 1);
		for (char *rest = list, *item; !j->wrong && (item = strtok_r(NULL, ",", &rest));) {
			const struct setting given = {name, item};
			plugins_name(item, runs ? NAMED_BY_USER : NAMED_BY_JOB);
			char *wrong AUTOFREE = plugins_load(&given, 1);
			if (wrong)
				job_wrong(j, line, "%s", wrong);
		}
	}
	rewind(j->file);
}

/* Reads and counts a line for inih. Removes indentation, because inih would take an indented line
 * as a continuation of the value above. */
static char *job_line(char *buf, int room, void *user)
{
	struct job *j = user;
	char *line = fgets(buf, room, j->file);
	if (!line)
		return NULL;
	if (j->line++ == 0 && strncmp(line, "\xef\xbb\xbf", 3) == 0)
		memmove(line, line + 3, strlen(line + 3) + 1); /* UTF-8 byte order mark */
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
			return job_wrong(j, j->line, "%s is already in [search]", name);
	if (s->ranges == RANGES_MOST)
		return job_wrong(j, j->line, "[search] has more than %d ranges", RANGES_MOST);
	char *wrong AUTOFREE = range_read(&r, name, value);
	APPEND(s->range, s->ranges, r);
	if (wrong)
		job_wrong(j, j->line, "%s", wrong);
}

/* Adds the names of lists, "workers, lr", to z. */
static char *zip_read(struct axis *z, const char *text)
{
	for (size_t n; *(text += strspn(text, ", \t")); text += n) {
		n = strcspn(text, ", \t");
		char *name AUTOFREE = must(strndup(text, n));
		APPEND(z->value, z->n, must(strdup(name)));
	}
	return z->n > 1 ? NULL
			: sentence("zip: give the names of at least two lists, such as workers, "
				   "lr");
}

/* NULL, or what is wrong. */
static char *key_read(struct section *s, int line, const char *name, const char *value)
{
	const struct axis *before = axis_find(s, name);
	struct axis a;
	if (strcmp(name, "zip") == 0) {
		APPEND(s->zip, s->zips, (struct axis){.line = line});
		return zip_read(&s->zip[s->zips - 1], value);
	}
	if (strcmp(name, "exclude") == 0) {
		APPEND(s->exclusion, s->exclusions, (struct exclusion){.n = 0});
		return exclusion_read(&s->exclusion[s->exclusions - 1], value);
	}
	if (before)
		return sentence("%s is already set on line %d; for several values give a list",
				name, before->line);
	TRY(axis_read(&a, name, value));
	a.line = line;
	APPEND(s->axis, s->axes, a);
	return NULL;
}

static int job_key(void *user, const char *section, const char *name, const char *value)
{
	struct job *j = user;
	char *files AUTOFREE = is_of_plugins(name) ? paths_from_job(j, value) : NULL;
	value = files ? files : value;
	if (j->searching && !j->wrong)
		job_range(j, name, value);
	if (j->searching)
		return !j->wrong;
	if (!*section)
		job_wrong(j, j->line, "%s is in no section; put it under [defaults]", name);
	if (j->wrong)
		return 0;
	char *wrong AUTOFREE = key_read(&j->section[j->sections - 1], j->line, name, value);
	if (wrong)
		job_wrong(j, j->line, "%s", wrong);
	return !wrong;
}

/* Reads a plain file or a pipe, up to FILE_MAX, and opens its text, because it is read twice. */
static char *job_open(struct job *j, char **text)
{
	struct stat st;
	if (stat(j->path, &st) != 0)
		return sentence("%s: %m", j->path);
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
		return sentence("%s: a job file is a plain file or a pipe", j->path);
	FILE *f = fopen(j->path, "r");
	if (!f)
		return sentence("%s: %m", j->path);
	*text = must(malloc(FILE_MAX + 1));
	size_t n = fread(*text, 1, FILE_MAX + 1, f);
	char *wrong = ferror(f)      ? sentence("%s: cannot be read: %m", j->path)
		      : n > FILE_MAX ? sentence("%s: a job file has at most %d MiB", j->path,
						FILE_MAX >> 20)
				     : NULL;
	fclose(f);
	if (!wrong)
		j->file = must(fmemopen(*text, n, "r"));
	return wrong;
}

static char *job_read(struct job *j, const char *path, struct search *search, bool runs)
{
	char *text AUTOFREE = NULL;
	*j = (struct job){.path = path, .search = search};
	TRY(job_open(j, &text));
	section_add(j, must(strdup("defaults")), 0);
	load_plugins(j, runs);
	int line = j->wrong ? 0 : ini_parse_stream(job_line, j, job_key, j);
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

/* One of a section's lists. */
struct dimension {
	const struct axis *axis;
	size_t with; /* the dimension whose index it uses: itself, unless zipped */
	bool zipped;
};

/* Lists from the command line (line 0) are not zipped. NULL, or what is wrong. */
static char *zip_up(const struct axis *z, struct dimension *d, size_t n)
{
	size_t first = n;
	for (size_t k = 0; k < z->n; k++) {
		size_t i = 0;
		while (i < n && strcmp(d[i].axis->name, z->value[k]) != 0)
			i++;
		if (i == n)
			return sentence("zip: %s is not set in this section", z->value[k]);
		if (d[i].zipped)
			return sentence("zip: %s is already zipped with other lists", z->value[k]);
		if (d[i].axis->line == 0)
			continue;
		first = first == n ? i : first;
		const struct axis *a = d[first].axis, *b = d[i].axis;
		if (a->n != b->n)
			return sentence("zip: %s has %zu value%s and %s has %zu; zipped "
					"lists must have equal lengths",
					a->name, a->n, plural((int64_t)a->n), b->name, b->n);
		d[i].zipped = true;
		d[i].with = first;
	}
	return NULL;
}

static bool excluded(const struct section *s, const struct config *c)
{
	for (size_t i = 0; i < s->exclusions; i++)
		if (exclusion_holds(&s->exclusion[i], c))
			return true;
	return false;
}

/* Is the option in the description already, or does it belong to a plug-in of other cells? */
static bool is_left_out_of_description(const struct config *c, const char *name)
{
	static const char *const described[] = {"workload", "strategy", "workers"};
	for (size_t i = 0; i < sizeof described / sizeof *described; i++)
		if (strcmp(name, described[i]) == 0)
			return true;
	return !option_applies(name, c);
}

/* "mlp, asgd, 2 workers, sync-every 16": the basics, then the options that vary. */
static char *describe(const struct config *c, const struct dimension *d, size_t n,
		      const struct setting *setting)
{
	struct text t;
	FILE *f = text_open(&t);
	fprintf(f, "%s, %s, %lld worker%s", c->run.workload, c->run.strategy,
		(long long)c->run.workers, plural(c->run.workers));
	for (size_t i = 0; i < n; i++)
		if (d[i].axis->n > 1 && !is_left_out_of_description(c, setting[i].name))
			fprintf(f, ", %s %s", setting[i].name, setting[i].value);
	return text_close(&t);
}

bool sweep_add(struct sweep *s, struct config *c, const char *section, int line)
{
	struct cell cell = {.config = *c, .line = line};
	config_hash(c, cell.hash);
	if (!set_add(&s->hashes, cell.hash)) {
		config_fini(c);
		s->duplicates++;
		return false;
	}
	cell.section = must(strdup(section));
	APPEND(s->cell, s->cells, cell);
	return true;
}

/* Goes to the next combination; the last list varies fastest. false: there is no next one. */
static bool turn_on(size_t *turn, const struct dimension *d, size_t n)
{
	for (size_t k = n; k-- > 0; turn[k] = 0)
		if (d[k].with == k && ++turn[k] < d[k].axis->n)
			return true;
	return false;
}

/* All combinations of these lists. */
static char *expand(struct sweep *s, const struct job *j, const struct section *section,
		    const struct dimension *d, size_t n)
{
	size_t product = 1;
	for (size_t i = 0; i < n && product <= CELLS_MAX; i++)
		product *= d[i].with == i ? d[i].axis->n : 1;
	if (s->cells + product > CELLS_MAX)
		return sentence("%s:%d: [%s] makes more than %d cells; shorten its lists", j->path,
				section->line, section->name, CELLS_MAX);
	size_t *turn AUTOFREE = must(calloc(n + 1, sizeof *turn));
	struct setting *setting AUTOFREE = must(calloc(n + 1, sizeof *setting));

	do {
		struct config c;
		for (size_t i = 0; i < n; i++)
			setting[i] = (struct setting){d[i].axis->name,
						      d[i].axis->value[turn[d[i].with]]};
		char *why AUTOFREE = config_init(&c, setting, n, true);
		if (!why && c.run.sim_replay) {
			config_fini(&c);
			why = sentence(
				"sim.replay: a replay takes its options from the recorded run and "
				"cannot be a cell of a sweep; use mvbench run");
		}
		if (why)
			return sentence("%s:%d: [%s] %s", j->path, section->line, section->name,
					why);
		if (excluded(&j->section[0], &c) || excluded(section, &c)) {
			config_fini(&c);
			s->excluded++;
		} else if (sweep_add(s, &c, section->name, section->line)) {
			s->cell[s->cells - 1].what = describe(&c, d, n, setting);
		}
	} while (turn_on(turn, d, n));
	return NULL;
}

/* The lists of a section: those of the defaults (or NULL) that it does not replace, its own, and
 * the command line's, which replace both. Each has an index of its own. Returns their number. */
static size_t list_dimensions(struct dimension *d, const struct section *defaults,
			      const struct section *section, const struct section *over)
{
	size_t n = 0;
	for (size_t i = 0; defaults && i < defaults->axes; i++)
		if (!axis_find(section, defaults->axis[i].name) &&
		    !axis_find(over, defaults->axis[i].name))
			d[n++].axis = &defaults->axis[i];
	for (size_t i = 0; i < section->axes; i++)
		if (!axis_find(over, section->axis[i].name))
			d[n++].axis = &section->axis[i];
	for (size_t i = 0; i < over->axes; i++)
		d[n++].axis = &over->axis[i];
	for (size_t i = 0; i < n; i++)
		d[i].with = i;
	return n;
}

/* Zips the lists of a section as the lines of `by` say: its own, or the defaults'. */
static char *zip_section(const struct job *j, const struct section *section,
			 const struct section *by, struct dimension *d, size_t n)
{
	for (size_t i = 0; i < by->zips; i++) {
		char *wrong AUTOFREE = zip_up(&by->zip[i], d, n);
		if (wrong)
			return sentence("%s:%d: [%s] %s", j->path, by->zip[i].line, section->name,
					wrong);
	}
	return NULL;
}

static char *expand_section(struct sweep *s, const struct job *j, const struct section *section,
			    const struct section *over)
{
	const struct section *defaults = section == &j->section[0] ? NULL : &j->section[0];
	size_t room = j->section[0].axes + section->axes + over->axes;
	struct dimension *d AUTOFREE = must(calloc(room + 1, sizeof *d));
	size_t n = list_dimensions(d, defaults, section, over);
	if (defaults)
		TRY(zip_section(j, section, defaults, d, n));
	TRY(zip_section(j, section, section, d, n));
	return expand(s, j, section, d, n);
}

/* The command line's options as axes; a later one replaces an earlier one with the same name. */
static char *read_over(const struct setting *given, size_t n, struct section *over)
{
	for (size_t i = 0; i < n; i++) {
		struct axis a, *before;
		TRY(axis_read(&a, given[i].name, given[i].value ? given[i].value : "true"));
		if ((before = axis_find(over, a.name))) {
			axis_fini(before);
			*before = a;
		} else {
			APPEND(over->axis, over->axes, a);
		}
	}
	return NULL;
}

char *sweep_read(const char *path, const struct setting *given, size_t n, struct sweep *s,
		 struct search *search, bool runs)
{
	*s = (struct sweep){.cell = NULL};
	struct section over ENDS_WITH(section_fini) = {.name = NULL};
	struct job j ENDS_WITH(job_free) = {.section = NULL};
	TRY(settings_check(given, n));
	TRY(read_over(given, n, &over));
	TRY(job_read(&j, path, search, runs));
	for (size_t i = j.sections > 1; i < j.sections; i++)
		TRY(expand_section(s, &j, &j.section[i], &over));
	if (!s->cells && s->excluded)
		return sentence(
			"%s: its exclude lines leave no cell; make their conditions narrower",
			path);
	const char *db = s->cells ? s->cell[0].config.harness.db : "";
	for (size_t i = 1; i < s->cells; i++)
		if (strcmp(s->cell[i].config.harness.db, db) != 0)
			return sentence("%s:%d: a sweep has one database, not %s and %s", path,
					s->cell[i].line, db, s->cell[i].config.harness.db);
	return NULL;
}

void cell_fini(struct cell *c)
{
	config_fini(&c->config);
	free(c->section);
	free(c->what);
}

void sweep_free(struct sweep *s)
{
	for (size_t i = 0; i < s->cells; i++)
		cell_fini(&s->cell[i]);
	free(s->cell);
	tdestroy(s->hashes, free);
	*s = (struct sweep){.cell = NULL};
}
