/*
 * axes.c - the data of figure xy: any column of the runs against any other. A column is one of view
 * run_summary, the speed-up over serial, or an option by its name, a strategy's and a workload's
 * too. Its values go to the temporary tables `point` and `axes` of style.sql.
 */
#include "plots/plot.h"

#include <string.h>

/* Columns in a unit of their own. A seed counts once in a figure of the model (worst is not NULL),
 * also if its run diverged: as worst. */
static const struct measure {
	const char *column, *unit;
	double scale;      /* factor of the drawn value */
	const char *worst; /* SQL */
} measures[] = {
	{"test_accuracy", "%", 100, "-9e999"},
	{"best_test_accuracy", "%", 100, "-9e999"},
	{"validation_accuracy", "%", 100, "-9e999"},
	{"target_accuracy", "%", 100, "NULL"},
	{"test_loss", NULL, 1, "9e999"},
	{"train_loss", NULL, 1, "9e999"},
	{"validation_loss", NULL, 1, "9e999"},
	{"running_loss", NULL, 1, "9e999"},
	{"target_loss", NULL, 1, "NULL"},
	{"epoch_seconds", "s", 1, NULL},
	{"quiet_epoch_seconds", "s", 1, NULL},
	{"target_seconds", "s", 1, NULL},
	{"seconds_total", "s", 1, NULL},
	{"utilisation", "%", 100, NULL},
	{"sim_rate", "bit/s", 1, NULL},
	{NULL, NULL, 1, NULL}, /* other columns */
};

static const struct measure *measure_of(const char *column)
{
	const struct measure *m = measures;
	while (m->column && strcmp(m->column, column) != 0)
		m++;
	return m;
}

/* A column as the user names it. */
struct axis {
	char *name; /* as listed, with _ for - */
	char *sql;  /* its value, of run_summary r and the base p of its speed-up */
	bool key;   /* an option: it has one value for each configuration */
	const struct measure *measure;
};

static void axis_fini(struct axis *a)
{
	free(a->name);
	free(a->sql);
	*a = (struct axis){.name = NULL};
}

struct names {
	const char **name;
	size_t n, columns; /* columns are first; then other options */
};

static void names_fini(struct names *all)
{
	for (size_t i = 0; i < all->n; i++)
		free((char *)(uintptr_t)all->name[i]);
	free(all->name);
}

static char *names_read(struct store *s, struct names *all)
{
	struct sql q AUTODONE = sql_select(
		s,
		"SELECT name, 1 FROM pragma_table_info('run_summary') WHERE name NOT IN "
		"('config_key', 'compare_key', 'config_hash') UNION ALL SELECT 'speedup', 1 UNION "
		"ALL SELECT * FROM (SELECT DISTINCT e.key, 0 FROM (SELECT DISTINCT config_key FROM "
		"run_summary) CROSS JOIN json_each(config_key) AS e ORDER BY 1)",
		"");
	while (sql_next(&q)) {
		APPEND(all->name, all->n, sql_copy(&q, 0));
		all->columns += sql_int(&q, 1) != 0;
	}
	return sql_done(&q);
}

/* NULL, or a sentence: the option ("--x=") names no column. */
static char *axes_find(struct axis *a, const struct names *all, const char *option,
		       const char *typed)
{
	char *name AUTOFREE = must(strdup(typed));
	for (char *c = name; *c; c++)
		*c = *c == '-' ? '_' : *c;
	size_t at = 0;
	while (at < all->n && strcmp(all->name[at], name) != 0)
		at++;
	if (at == all->n)
		return no_such("column", option, typed, all->name, all->n,
			       "mvbench table --help lists them, and options are columns, too");
	*a = (struct axis){
		.name = must(strdup(name)),
		.sql = at + 1 == all->columns ? must(strdup("p.epoch_seconds / r.epoch_seconds"))
		       : at < all->columns    ? sentence("r.\"%s\"", name)
					      : sentence("(r.config_key ->> '$.\"%s\"')", name),
		.key = at >= all->columns,
		.measure = measure_of(name)};
	for (size_t i = all->columns; i < all->n; i++)
		a->key |= strcmp(all->name[i], name) == 0;
	return NULL;
}

/* The value as a number; words stay words, or become NULL if !words. Heap. */
static char *as_number(const struct axis *a, bool words)
{
	return sentence(
		"CASE WHEN typeof(%s) IN ('integer', 'real') THEN %s WHEN iif(json_valid(%s), "
		"json_type(%s) IN ('integer', 'real'), 0) THEN CAST(%s AS REAL) %s%s END",
		a->sql, a->sql, a->sql, a->sql, a->sql, words ? "ELSE " : "", words ? a->sql : "");
}

/* The name, with a unit: % of accuracies, s of seconds, an option's own unit. Heap. */
static char *axis_label(const struct axis *a)
{
	char *typed AUTOFREE = must(strdup(a->name));
	for (char *c = typed; *c; c++)
		*c = *c == '_' ? '-' : *c;
	const struct option *o = option_find(run_options, typed);
	const char *unit = o && o->help ? strrchr(o->help, '[') : NULL;
	if (a->measure->unit)
		return sentence("%s [%s]", a->name, a->measure->unit);
	if (o && unit && strcmp(unit, "[name]") != 0 && !strstr(unit, typed))
		return sentence("%s %s", typed, unit);
	return must(strdup(o ? typed : a->name));
}

/* The line that a run belongs to without --group: its configuration without what heads the picture,
 * and without the parts of its name that show this column. Heap. */
static char *usual_series(const struct axis *x)
{
	if (strcmp(x->name, "workers") == 0)
		return must(strdup("c.series"));
	if (strcmp(x->name, "strategy") == 0) /* it is first, a blank follows */
		return must(strdup("replace(c.cut || ' ', c.strategy || ' ', '')"));
	return sentence(
		"replace(c.cut, replace(ifnull((SELECT iif(part = '', ' ' || name || '=#', part) "
		"FROM option_info WHERE \"column\" = '%s'), ' %s=#'), '#', iif(typeof(%s) = "
		"'real', format('%%g', %s), %s)), '')",
		x->name, x->name, x->sql, x->sql, x->sql);
}

/* "strategy,workers": numbers with their names, words without. */
static char *grouped_series(const struct names *all, const char *list, char **series)
{
	struct text t;
	FILE *f = text_open(&t);
	char *wrong = NULL;
	const char *between = "";
	for (const char *at = list; !wrong && *at; at += strspn(at, ", ")) {
		struct axis a ENDS_WITH(axis_fini) = {.name = NULL};
		size_t n = strcspn(at, ", ");
		char *name AUTOFREE = must(strndup(at, n));
		at += n;
		wrong = axes_find(&a, all, "--group=", name);
		char *number AUTOFREE = wrong ? NULL : as_number(&a, false);
		if (!wrong)
			fprintf(f, "%siif(%s IS NULL, ifnull(%s, ''), '%s=' || format('%%g', %s))",
				between, number, a.sql, a.name, number);
		between = " || ' ' || ";
	}
	*series = text_close(&t);
	return wrong;
}

/* The value in its unit. Heap. */
static char *as_drawn(const struct axis *a, bool words)
{
	char *number AUTOFREE = as_number(a, words);
	return a->measure->scale == 1 ? must(strdup(number))
				      : sentence("%g * (%s)", a->measure->scale, number);
}

static char *axes_fill(struct store *s, const struct axis *x, const struct axis *y,
		       const char *series, const char *log)
{
	char *x_sql AUTOFREE = as_drawn(x, true), *y_sql AUTOFREE = as_drawn(y, false);
	char *x_label AUTOFREE = axis_label(x), *y_label AUTOFREE = axis_label(y);
	bool pooled = x->key || strcmp(x->name, "seed") == 0;
	const char *worst = y->measure->worst;
	char *sql AUTOFREE = sentence(
		"INSERT INTO temp.point SELECT workload, series, iif(%d OR typeof(x) = "
		"'text', x, config_key), x, y, look, place FROM (SELECT r.workload, "
		"c.config_key, ifnull(nullif(trim(%s), ''), 'runs') AS series, %s AS x, "
		"iif(r.status = 'done', %s, %s) AS y, c.look, c.place FROM run_summary AS r JOIN "
		"finished AS f USING (id) JOIN configuration AS c ON c.config_key = r.config_key "
		"LEFT JOIN serial_pace AS p ON p.compare_key = r.compare_key WHERE %s) WHERE x IS "
		"NOT NULL AND y IS NOT NULL",
		pooled, series, x_sql, y_sql, worst ? worst : "NULL",
		worst ? "f.repeat = 1" : "f.timed");
	TRY(sql_change(s, sql, ""));
	return sql_change(s, "INSERT INTO temp.axes VALUES (?1, ?2, ?3, ?4)", "ttti", x_label,
			  y_label, log, (int64_t)pooled);
}

/* NULL, or a message: no run has both, and a number for y. */
static char *check_points(struct store *s, const struct axis *x, const struct axis *y)
{
	int64_t points = 0, runs = 0;
	TRY(sql_number(s, &points, "SELECT count(*) FROM temp.point", ""));
	TRY(sql_number(s, &runs, "SELECT count(*) FROM selected", ""));
	if (points || !runs)
		return NULL;
	return sentence("--x=%s --y=%s: none of the %lld chosen finished runs has both, with a "
			"number for y",
			x->name, y->name, (long long)runs);
}

char *axes_choose(struct store *s, const struct axes *a)
{
	struct names all ENDS_WITH(names_fini) = {.n = 0};
	struct axis x ENDS_WITH(axis_fini) = {.name = NULL},
		      y ENDS_WITH(axis_fini) = {.name = NULL};
	char *series AUTOFREE = NULL;
	TRY(names_read(s, &all));
	TRY(axes_find(&x, &all, "--x=", a->x));
	TRY(axes_find(&y, &all, "--y=", a->y));
	if (*a->group)
		TRY(grouped_series(&all, a->group, &series));
	else
		series = usual_series(&x);
	TRY(axes_fill(s, &x, &y, series, a->log));
	return check_points(s, &x, &y);
}
