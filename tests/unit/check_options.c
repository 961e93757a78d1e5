/*
 * check_options.c - all option tables, those of plug-ins too: defaults, ranges, text forms, help;
 * then command lines, configurations and their identity, schedules and plans.
 */
#include "runtime/cli/cli.h"
#include "runtime/config/config.h"
#include "runtime/config/heterogeneity.h"
#include "runtime/config/plugins.h"
#include "runtime/config/schedule.h"
#include "runtime/train/train.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- All tables, as tests loop over them --------------------------------- */

struct table_of {
	const char *owner; /* NULL: the core */
	const char *part;
	const struct option *options;
	size_t size;
};

static size_t all_tables(struct table_of t[64])
{
	size_t n = 0;
	t[n++] = (struct table_of){NULL, "run", run_options, sizeof(struct config)};
	for (size_t i = 0; strategies[i]; i++)
		t[n++] = (struct table_of){strategies[i]->plugin.name, "strategy",
					   strategies[i]->plugin.options,
					   strategies[i]->plugin.opts_size};
	for (size_t i = 0; workloads[i]; i++)
		t[n++] = (struct table_of){workloads[i]->plugin.name, "workload",
					   workloads[i]->plugin.options,
					   workloads[i]->plugin.opts_size};
	for (size_t i = 0; optimizers[i]; i++)
		t[n++] = (struct table_of){optimizers[i]->plugin.name, "optimizer",
					   optimizers[i]->plugin.options,
					   optimizers[i]->plugin.opts_size};
	for (size_t i = 0; codecs[i]; i++)
		t[n++] = (struct table_of){codecs[i]->plugin.name, "codec",
					   codecs[i]->plugin.options, codecs[i]->plugin.opts_size};
	return n;
}

static bool is_number(const struct option *o)
{
	return o->type == OPT_INT || o->type == OPT_REAL || o->type == OPT_SIZE ||
	       o->type == OPT_TIME || o->type == OPT_RATE || o->type == OPT_COUNT;
}

static void each_option(void (*test)(const struct table_of *t, const struct option *o))
{
	struct table_of t[64];
	size_t n = all_tables(t);
	for (size_t i = 0; i < n; i++)
		for (const struct option *o = t[i].options; o && o->name; o++)
			test(&t[i], o);
}

static void refused(const struct table_of *t, const struct option *o, const char *text)
{
	char *fields AUTOFREE = calloc(1, t->size), *zeros AUTOFREE = calloc(1, t->size);
	char *wrong AUTOFREE = option_set(o, fields, t->owner, text);
	ck_assert_msg(wrong != NULL, "%s accepts %s", o->name, text);
	ck_assert_msg(strstr(wrong, o->name) && strstr(wrong, text), "%s", wrong);
	ck_assert_msg(memcmp(fields, zeros, t->size) == 0, "%s=%s is refused, but set", o->name,
		      text);
}

static void round_trip(const struct table_of *t, const struct option *o)
{
	char *a AUTOFREE = calloc(1, t->size), *b AUTOFREE = calloc(1, t->size), text[256],
		again[256];
	char *wrong = option_set(o, a, t->owner, o->def);
	ck_assert_msg(!wrong, "%s", wrong);
	option_text(o, a, text, sizeof text);
	ck_assert_msg(o->incidental || o->type == OPT_BOOL || strcmp(text, o->def) == 0,
		      "%s: the identity of a cell needs %s as %s", o->name, o->def, text);
	wrong = option_set(o, b, t->owner, text);
	ck_assert_msg(!wrong, "%s", wrong);
	option_text(o, b, again, sizeof again);
	ck_assert_str_eq(text, again);
	if (is_number(o) || o->type == OPT_BOOL)
		ck_assert_msg(memcmp(a, b, t->size) == 0, "%s=%s reads back as another value",
			      o->name, text);
}

TEST(defaults_are_valid_and_read_back)
{
	each_option(round_trip);
}

static void bad_values(const struct table_of *t, const struct option *o)
{
	static const char *const never[] = {"",     "x",   "nan", "inf", "-inf", "1e999",
					    "0x10", "1 2", "3x",  "--",  " 1"};
	char text[64];
	if (o->type == OPT_STRING)
		return;
	for (size_t i = 0; i < sizeof never / sizeof *never; i++)
		refused(t, o, never[i]);
	if (o->type == OPT_CHOICE) {
		snprintf(text, sizeof text, "%.*s", (int)strcspn(o->choices, "|") - 1, o->choices);
		refused(t, o, text); /* a choice without its last letter */
		if (strchr(o->choices, '|'))
			refused(t, o, o->choices);
	}
	if (!is_number(o) || (o->min == 0 && o->max == 0))
		return;
	snprintf(text, sizeof text, "%.17g", o->min - 1);
	refused(t, o, text);
	if (o->max < 1e15) {
		snprintf(text, sizeof text, o->type == OPT_REAL ? "%.17g" : "%.0f", o->max + 1);
		refused(t, o, text);
	}
	if (o->type == OPT_INT || o->type == OPT_SIZE) {
		refused(t, o, "99999999999999999999");
		refused(t, o, "1.5");
	}
}

TEST(bad_values_are_refused_with_the_name_and_the_value)
{
	each_option(bad_values);
}

static void good_help(const struct table_of *t, const struct option *o)
{
	size_t n = strlen(o->help);
	ck_assert_msg(n > 10, "%s: the help is too short", o->name);
	if (is_number(o))
		ck_assert_msg(o->help[n - 1] == ']' && strchr(o->help, '['),
			      "%s %s: help must end in its unit", t->owner ? t->owner : "run",
			      o->name);
	ck_assert_msg((o->type == OPT_CHOICE) == (o->choices != NULL), "%s: choices", o->name);
	ck_assert_msg(strspn(o->name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == strlen(o->name),
		      "%s: a name must be lower case", o->name);
	ck_assert_msg(o->min <= o->max, "%s: an empty range", o->name);
	ck_assert_msg(option_find(t->options, o->name) == o, "%s is in its table twice", o->name);
	ck_assert_msg(o->offset < t->size, "%s lies outside its struct", o->name);
}

TEST(option_help_ends_in_unit)
{
	each_option(good_help);
}

TEST(plug_in_names_are_unique)
{
	struct table_of t[64];
	size_t n = all_tables(t);
	for (size_t i = 1; i < n; i++)
		for (size_t k = 1; k < i; k++)
			ck_assert_str_ne(t[i].owner, t[k].owner);
}

/* In names of figures each option has its own place, before plug-ins' (98) and the label (99). */
TEST(option_places_in_names_are_unique)
{
	for (const struct option *o = run_options; o->name; o++) {
		bool label = strcmp(o->name, "label") == 0;
		ck_assert_msg(label ? o->core.label == 99 : o->core.label < 98, "%s: %d", o->name,
			      o->core.label);
		for (const struct option *p = run_options; p < o && o->core.label; p++)
			ck_assert_msg(p->core.label != o->core.label, "%s and %s: %d", p->name,
				      o->name, o->core.label);
	}
}

TEST(help_prints_every_option)
{
	const struct plugin *periodic = plugin_find(PART_STRATEGY, "periodic");
	struct text t;
	FILE *f = text_open(&t);
	help_rows(&(struct help){.f = f}, NULL, run_options);
	help_rows(&(struct help){.f = f}, "periodic", periodic->options);
	char *text AUTOFREE = text_close(&t);
	ck_assert_ptr_nonnull(strstr(text, "\n  --epochs=10 "));
	ck_assert_ptr_nonnull(strstr(text, "(mean, sum)"));
	ck_assert_ptr_nonnull(strstr(text, "--periodic.start=0 "));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		ck_assert_msg(strlen(line) <= 100, "%s", line);
}

TEST(readme_names_every_plug_in)
{
	struct table_of t[64];
	size_t n = all_tables(t);
	char *path AUTOFREE = installed_path("README.md"), text[64 * 1024];
	ck_assert_msg(path != NULL, "there is no README.md");
	FILE *f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	ck_assert(feof(f));
	fclose(f);
	for (size_t i = 1; i < n; i++) {
		char *name AUTOFREE = sentence("`%s`", t[i].owner);
		ck_assert_msg(strstr(text, name) != NULL, "README.md does not have the %s %s",
			      t[i].part, name);
	}
}

/* ---- Types --------------------------------------------------------------- */

struct sample {
	int64_t size;
	double time, real;
	bool flag;
};

static const struct option size_option = {
	.name = "size", .type = OPT_SIZE, .offset = offsetof(struct sample, size), .def = "1MiB"};
static const struct option time_option = {
	.name = "time", .type = OPT_TIME, .offset = offsetof(struct sample, time), .def = "2ms"};
static const struct option real_option = {
	.name = "real", .type = OPT_REAL, .offset = offsetof(struct sample, real), .def = "0.1"};
static const struct option rate_option = {
	.name = "rate", .type = OPT_RATE, .offset = offsetof(struct sample, real), .def = "1gbit"};
static const struct option count_option = {
	.name = "count", .type = OPT_COUNT, .offset = offsetof(struct sample, real), .def = "1T"};
static const struct option bool_option = {
	.name = "flag", .type = OPT_BOOL, .offset = offsetof(struct sample, flag), .def = "no"};

TEST(sizes_take_units)
{
	static const struct {
		const char *text;
		int64_t bytes;
		const char *back;
	} row[] = {
		{"0", 0, "0"},
		{"17", 17, "17"},
		{"17B", 17, "17"},
		{"20MiB", 20971520, "20MiB"},
		{"1.5KiB", 1536, "1536"},
		{"2 GiB", 2147483648, "2GiB"},
		{"3kB", 3000, "3kB"},
		{"4MB", 4000000, "4MB"},
		{"1GB", 1000000000, "1GB"},
	};
	struct sample s;
	char text[64];
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		ck_assert_ptr_null(option_set(&size_option, &s, NULL, row[i].text));
		ck_assert_int_eq(s.size, row[i].bytes);
		option_text(&size_option, &s, text, sizeof text);
		ck_assert_str_eq(text, row[i].back);
	}
	char *wrong AUTOFREE = option_set(&size_option, &s, "allreduce", "20mib");
	ck_assert_str_eq(
		wrong, "--allreduce.size=20mib: give a size in bytes (or with B, kB, MB, GB, KiB, "
		       "MiB, GiB), such as --allreduce.size=1MiB");
}

TEST(times_take_units)
{
	static const struct {
		const char *text;
		double seconds;
		const char *back;
	} row[] = {
		{"3ms", 0.003, "3ms"}, {"250us", 250e-6, "250us"}, {"0.5s", 0.5, "500ms"},
		{"2min", 120, "120s"}, {"1h", 3600, "3600s"},      {"0s", 0, "0s"},
		{"0", 0, "0s"},
	};
	struct sample s;
	char text[64];
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		ck_assert_ptr_null(option_set(&time_option, &s, NULL, row[i].text));
		ck_assert_msg(s.time == row[i].seconds, "%s is %.17g", row[i].text, s.time);
		option_text(&time_option, &s, text, sizeof text);
		ck_assert_str_eq(text, row[i].back);
	}
}

/* A rate that is typed in another unit is the same option, and the same cell of a sweep. */
TEST(rates_and_counts_take_units)
{
	static const struct {
		const struct option *option;
		const char *text;
		double value;
		const char *back;
	} row[] = {
		{&rate_option, "50mbit", 50e6, "50mbit"},
		{&rate_option, "1gbit", 1e9, "1gbit"},
		{&rate_option, "1000mbit", 1e9, "1gbit"},
		{&rate_option, "900GB", 7.2e12, "7.2tbit"},
		{&rate_option, "2.5 gbit", 2.5e9, "2.5gbit"},
		{&rate_option, "100kbit", 1e5, "100kbit"},
		{&rate_option, "125MB", 1e9, "1gbit"},
		{&rate_option, "992.6mbit", 992.6e6, "992.6mbit"},
		{&rate_option, "7bit", 7, "7bit"},
		{&rate_option, "0", 0, "0"},
		{&count_option, "400T", 400e12, "400T"},
		{&count_option, "1e15", 1e15, "1P"},
		{&count_option, "989.4T", 989.4e12, "989.4T"},
		{&count_option, "12", 12, "12"},
	};
	static const char *const wrong[] = {"5", "5Mbit", "5mb", "5mbit/s", "mbit", "-", ""};
	struct sample s;
	char text[64];
	for (size_t i = 0; i < COUNT(row); i++) {
		ck_assert_ptr_null(option_set(row[i].option, &s, NULL, row[i].text));
		ck_assert_msg(s.real == row[i].value, "%s is %.17g", row[i].text, s.real);
		option_text(row[i].option, &s, text, sizeof text);
		ck_assert_str_eq(text, row[i].back);
		ck_assert_ptr_null(option_set(row[i].option, &s, NULL, text));
		ck_assert_msg(s.real == row[i].value, "%s, back from %s, is %.17g", text,
			      row[i].text, s.real);
	}
	for (size_t i = 0; i < COUNT(wrong); i++) {
		char *says AUTOFREE = option_set(&rate_option, &s, NULL, wrong[i]);
		char *want AUTOFREE = sentence("--rate=%s: give a rate with its unit (kbit, mbit, "
					       "gbit, tbit, kB, MB, GB, TB), such as --rate=1gbit",
					       wrong[i]);
		ck_assert_ptr_nonnull(says);
		ck_assert_str_eq(says, want);
	}
}

static void refuse_bare_time(const struct table_of *t, const struct option *o)
{
	if (o->type == OPT_TIME || strstr(o->help, "[time]"))
		refused(t, o, "5");
}

TEST(examples_in_messages_turn_no_option_off)
{
	static const struct {
		const char *name, *wrong, *says;
	} row[] = {
		{"quiet-wait", "60", ", such as --quiet-wait=1s"},
		{"sim.rate", "10", ", such as --sim.rate=1gbit"},
		{"lr", "fast", ", such as --lr=0.1"},
	};
	for (size_t i = 0; i < COUNT(row); i++) {
		const struct option *o;
		char *says AUTOFREE = config_check(row[i].name, row[i].wrong, &o);
		ck_assert_msg(says && strstr(says, row[i].says), "%s", says ? says : "no message");
	}
}

/* 5 alone could be meant as seconds or as milliseconds. */
TEST(times_without_unit_are_refused)
{
	static const char *const bare[] = {"5", "0.5", "1e-3", "-1", "5 ", "s", ""};
	struct sample s;
	for (size_t i = 0; i < COUNT(bare); i++) {
		char *wrong AUTOFREE = option_set(&time_option, &s, "x", bare[i]);
		char *want AUTOFREE = sentence("--x.time=%s: give a time with its unit (us, ms, s, "
					       "min or h), such as --x.time=2ms",
					       bare[i]);
		ck_assert_str_eq(wrong, want);
	}
	each_option(refuse_bare_time);
	char *wrong AUTOFREE = time_check("sim.step-time", "5", NULL);
	ck_assert_str_eq(wrong, "--sim.step-time=5: give auto or a time above 0 with its unit (us, "
				"ms, s, min or h), such as --sim.step-time=5ms");
	for (const struct option *o = run_options; o->name; o++) {
		if (strcmp(o->name, "pause") != 0 && strcmp(o->name, "leave") != 0)
			continue;
		char *bad AUTOFREE = heterogeneity_check(o, o->name[0] == 'p' ? "1:2:5ms" : "1:2");
		ck_assert_msg(bad && strstr(bad, "in us, ms, s, min or h"), "%s: %s", o->name, bad);
	}
}

TEST(booleans_accept_several_words)
{
	static const char *const word[] = {"true", "yes", "1", "on", "false", "no", "0", "off"};
	struct sample s;
	for (size_t i = 0; i < 8; i++) {
		ck_assert_ptr_null(option_set(&bool_option, &s, NULL, word[i]));
		ck_assert_int_eq(s.flag, i < 4);
	}
}

TEST(real_and_time_values_are_read_back_unchanged)
{
	uint64_t rng = 1;
	struct sample a, b;
	char text[64];
	for (int i = 0; i < 20000; i++) {
		double x = ldexp(rng_uniform(&rng) - 0.5, (int)(rng_next(&rng) % 120) - 60);
		a.real = x;
		option_text(&real_option, &a, text, sizeof text);
		ck_assert_ptr_null(option_set(&real_option, &b, NULL, text));
		ck_assert_msg(a.real == b.real, "%s", text);
		a.time = fabs(x);
		option_text(&time_option, &a, text, sizeof text);
		ck_assert_ptr_null(option_set(&time_option, &b, NULL, text));
		ck_assert_msg(a.time == b.time, "%s", text);
	}
	a.real = 0.1;
	option_text(&real_option, &a, text, sizeof text);
	ck_assert_str_eq(text, "0.1");
	a.real = 1000;
	option_text(&real_option, &a, text, sizeof text);
	ck_assert_str_eq(text, "1000");
}

TEST(nearest_name_corrects_typos)
{
	static const char *const name[] = {"epochs", "workers", "lr", "sync-every", "seed"};
	static const char *const begun[] = {"state", "staleness_epoch", "staleness"};
	ck_assert_str_eq(nearest("epoch", name, 5), "epochs");
	ck_assert_str_eq(nearest("wrokers", name, 5), "workers");
	ck_assert_str_eq(nearest("sync_every", name, 5), "sync-every");
	ck_assert_str_eq(nearest("SEED", name, 5), "seed");
	ck_assert_str_eq(nearest("stale", begun, 3), "staleness");
	ck_assert_ptr_null(nearest("xy", name, 5));
	ck_assert_ptr_null(nearest("", name, 5));
	ck_assert_ptr_null(nearest("momentum", name, 5));
}

TEST(json_is_utf8_for_any_input)
{
	struct text t;
	text_json(text_open(&t), "a\xff\"\xe2\x82\\\xc3\xa9\n\xc0");
	char *text AUTOFREE = text_close(&t);
#define NONE "\xef\xbf\xbd"
	ck_assert_str_eq(text, "\"a" NONE "\\\"" NONE NONE "\\\\\xc3\xa9\\u000a" NONE "\"");
}

/* ---- Command lines ------------------------------------------------------- */

static bool is_bare(const void *ctx, const char *name)
{
	(void)ctx;
	return strcmp(name, "dry-run") == 0;
}

TEST(arguments_are_accepted_in_any_order)
{
	char *argv[] = {"a.ini", "--seed=3",    "--lr", "-0.1", "--dry-run",
			"b",     "--label=x=y", "-",    "--",   "--odd"};
	struct arguments a;
	ck_assert_ptr_null(arguments_read(&a, 10, argv, is_bare, NULL));
	ck_assert_uint_eq(a.options, 4);
	ck_assert_str_eq(a.option[0].name, "seed");
	ck_assert_str_eq(a.option[0].value, "3");
	ck_assert_str_eq(a.option[1].value, "-0.1");
	ck_assert_ptr_null(a.option[2].value);
	ck_assert_str_eq(a.option[3].name, "label");
	ck_assert_str_eq(a.option[3].value, "x=y");
	ck_assert_uint_eq(a.words, 4);
	ck_assert_str_eq(a.word[1], "b");
	ck_assert_str_eq(a.word[2], "-");
	ck_assert_str_eq(a.word[3], "--odd");
	ck_assert(!a.help);
	arguments_free(&a);
}

TEST(invalid_arguments_are_refused)
{
	char *last[] = {"--epochs"}, *next[] = {"--epochs", "--lr=1"}, *one[] = {"-x"};
	char *help[] = {"-h"}, *unknown[] = {"--epoch"};
	struct arguments a;
	char *wrong;
	/* an unknown option is reported before a missing value */
	for (int n = 1; n <= 2; n++) {
		ck_assert_ptr_null(arguments_read(&a, n, n == 1 ? last : next, is_bare, NULL));
		wrong = settings_check(a.option, a.options);
		ck_assert_str_eq(wrong, "--epochs: give a value, as in --epochs=10");
		free(wrong);
		arguments_free(&a);
	}
	ck_assert_ptr_null(arguments_read(&a, 1, unknown, is_bare, NULL));
	wrong = settings_check(a.option, a.options);
	ck_assert_str_eq(wrong, "--epoch: there is no such option; did you mean --epochs?");
	free(wrong);
	wrong = arguments_refuse(&a, run_options);
	ck_assert_str_eq(wrong, "--epoch: there is no such option; did you mean --epochs?");
	free(wrong);
	arguments_free(&a);
	wrong = arguments_read(&a, 1, one, is_bare, NULL);
	ck_assert_ptr_nonnull(strstr(wrong, "two dashes"));
	free(wrong);
	ck_assert_ptr_null(arguments_read(&a, 1, help, is_bare, NULL));
	ck_assert(a.help);
	arguments_free(&a);
}

TEST(commands_take_their_own_arguments)
{
	static const struct option own[] = {
		{.name = "size",
		 .type = OPT_SIZE,
		 .offset = offsetof(struct sample, size),
		 .def = "1"},
		{.name = "flag",
		 .type = OPT_BOOL,
		 .offset = offsetof(struct sample, flag),
		 .def = "no"},
		{0},
	};
	char *argv[] = {"--size=2KiB", "--other=1", "--flag=yes", "--sizes=3"};
	struct arguments a;
	struct sample s = {.flag = false};
	ck_assert_ptr_null(arguments_read(&a, 4, argv, is_bare, NULL));
	ck_assert_ptr_null(arguments_take(&a, own, &s));
	ck_assert_int_eq(s.size, 2048);
	ck_assert(s.flag);
	ck_assert_uint_eq(a.options, 2);
	ck_assert_str_eq(a.option[0].name, "other");
	struct setting first = a.option[0];
	a.option[0] = a.option[1];
	a.option[1] = first;
	a.options = 1;
	char *wrong AUTOFREE = arguments_refuse(&a, own);
	ck_assert_str_eq(wrong, "--sizes: there is no such option; did you mean --size?");
	arguments_free(&a);
}

/* ---- Configurations ------------------------------------------------------ */

static void made(struct config *c, const struct setting *s, size_t n)
{
	char *wrong = config_init(c, s, n, false);
	ck_assert_msg(!wrong, "%s", wrong);
}

static void not_made(const char *name, const char *value, const char *says)
{
	struct setting s = {name, value};
	struct config c;
	char *wrong AUTOFREE = config_init(&c, &s, 1, false);
	ck_assert_msg(wrong != NULL, "--%s=%s is accepted", name, value);
	ck_assert_msg(strstr(wrong, says) != NULL, "\"%s\" does not say \"%s\"", wrong, says);
}

TEST(given_options_override_recipes)
{
	const struct setting s[] = {{"batch", "7"}, {"workload", "perceptron"}, {"batch", "8"}};
	struct config c AUTOCONFIG = {0};
	made(&c, s, 3);
	ck_assert_str_eq(c.run.workload, "perceptron");
	ck_assert_int_eq(c.run.batch, 8);
	ck_assert_double_eq(c.run.lr, 1e-4); /* flashlight's */
	ck_assert_double_eq(c.run.momentum, 0.9);
	ck_assert_str_eq(c.run.strategy, "serial");
}

TEST(every_recipe_is_valid)
{
	for (size_t i = 0; workloads[i]; i++) {
		struct setting s = {"workload", workloads[i]->plugin.name};
		struct config c AUTOCONFIG = {0};
		made(&c, &s, 1);
		ck_assert_ptr_eq(c.workload, workloads[i]);
	}
}

TEST(invalid_configurations_are_refused)
{
	not_made("epoch", "3", "did you mean --epochs?");
	not_made("strategy", "asdg", "did you mean asgd?");
	not_made("workload", "nothing", "mlp");
	not_made("periodic.start", "3", "--strategy=periodic");
	not_made("periodc.start", "3", "--periodic.start");
	not_made("periodic.strat", "3", "did you mean --periodic.start?");
	not_made("momentum", "1", "below 1");
	not_made("lr-schedule", "steps:3", "--lr-schedule");
	not_made("db", "", "--db");
	not_made("epochs", NULL, "give a value");
}

TEST(job_files_accept_options_of_other_strategies)
{
	const struct setting s[] = {{"strategy", "asgd"}, {"periodic.start", "3"}};
	const struct setting bad[] = {{"strategy", "asgd"}, {"periodic.stat", "3"}};
	struct config c;
	char *wrong AUTOFREE = config_init(&c, s, 2, true);
	ck_assert_ptr_null(wrong);
	config_fini(&c);
	wrong = config_init(&c, bad, 2, true);
	ck_assert_ptr_nonnull(wrong);
}

/* The last --strategy counts, wherever the options of strategies are. */
TEST(last_strategy_ignores_options_of_others)
{
	const struct setting s[] = {
		{"strategy", "bsp"}, {"bsp.backup", "1"}, {"strategy", "periodic"}};
	struct config c;
	char *wrong AUTOFREE = config_init(&c, s, 3, true);
	ck_assert_ptr_null(wrong);
	struct config other AUTOCONFIG = {0};
	made(&other, s + 2, 1);
	ck_assert_mem_eq(c.strategy_opts, other.strategy_opts, c.strategy->plugin.opts_size);
	config_fini(&c);
	wrong = config_init(&c, s, 3, false);
	ck_assert_msg(wrong && strstr(wrong, "but the strategy is periodic"), "%s", wrong);
}

static void hash_given(const struct setting *s, size_t n, char hex[17])
{
	struct config c AUTOCONFIG = {0};
	made(&c, s, n);
	config_hash(&c, hex);
}

TEST(config_hash_does_not_depend_on_spelling)
{
	const struct setting a[] = {
		{"lr", "0.10"}, {"epochs", "3"}, {"label", "x"}, {"db", "a.db"}};
	const struct setting b[] = {{"epochs", "9"}, {"epochs", "3"}, {"lr", "1e-1"}};
	char x[17], y[17];
	hash_given(a, 4, x);
	hash_given(b, 3, y);
	ck_assert_str_eq(x, y);
	ck_assert_uint_eq(strlen(x), 16);
}

/* "topk:share=0.05" is topk with --topk.share=0.05. */
TEST(options_may_follow_the_name_of_a_plugin, 4)
{
	static const struct {
		struct setting typed, apart[3];
	} row[] = {
		{{"codec", "topk:share=0.05"}, {{"codec", "topk"}, {"topk.share", "0.05"}}},
		{{"codec", "topk:of=chunks:bits=2"},
		 {{"codec", "topk"}, {"topk.of", "chunks"}, {"topk.bits", "2"}}},
		{{"optimizer", "adamw:beta2=0.95"},
		 {{"optimizer", "adamw"}, {"adamw.beta2", "0.95"}}},
		{{"strategy", "periodic:start=3:outer=nesterov"},
		 {{"strategy", "periodic"},
		  {"periodic.start", "3"},
		  {"periodic.outer", "nesterov"}}},
	};
	char x[17], y[17], z[17];
	size_t n = 0;
	while (n < 3 && row[_i].apart[n].name)
		n++;
	hash_given(&row[_i].typed, 1, x);
	hash_given(row[_i].apart, n, y);
	hash_given(row[_i].apart, 1, z);
	ck_assert_str_eq(x, y);
	ck_assert_str_ne(x, z);
}

TEST(options_after_a_name_are_checked, 9)
{
	static const struct {
		struct setting s[2];
		const char *says;
	} row[] = {
		{{{"codec", "topkk:share=1"}}, "--codec=topkk: unknown name; did you mean topk?"},
		{{{"codec", "topk:shar=1"}}, "--topk.shar: there is no such option; did you mean"},
		{{{"codec", "topk:share=2"}}, "--topk.share=2: "},
		{{{"codec", "topk:share=0.1"}, {"topk.share", "0.2"}},
		 "--codec=topk:share=0.1: --topk.share=0.2 gives this option, too"},
		{{{"codec", "topk:0.1"}}, "--codec=topk:0.1: unknown name"},
		{{{"codec.pull", "bf17"}}, "--codec.pull=bf17: unknown name; did you mean "},
		{{{"codec.pull", "true:block=64"}}, "--codec.pull=true: unknown name"},
		{{{"codec.pull", "int8:blok=64"}},
		 "--int8.blok: there is no such option; did you mean"},
		{{{"codec.pull", "./half.c"}}, "with --codec=./half.c, true is the codec of this"},
	};
	struct config c;
	char *wrong AUTOFREE = config_init(&c, row[_i].s, row[_i].s[1].name ? 2 : 1, false);
	ck_assert_msg(wrong && strstr(wrong, row[_i].says), "\"%s\" does not say \"%s\"",
		      wrong ? wrong : "", row[_i].says);
}

TEST(config_hash_does_not_depend_on_the_start_of_a_platform)
{
	const struct setting a[] = {{"platform", "sim"}, {"sim.platform", "ethernet_10g"}};
	const struct setting b[] = {{"platform", "sim"}, {"sim.platform", "sim:ethernet_10g"}};
	char x[17], y[17];
	hash_given(a, 2, x);
	hash_given(b, 2, y);
	ck_assert_str_eq(x, y);
}

/* "strategy.easgd.beta"; heap. */
static char *default_name(const struct table_of *t, const struct option *o)
{
	return sentence("%s.%s%s%s", t->part, t->owner ? t->owner : "", t->owner ? "." : "",
			o->name);
}

static const struct known_default {
	const char *name, *def;
} known_defaults[] = {
#include "tests/reference/defaults.inc"
};

/* A default is not a part of a cell's identity. Cells with an old and with a new one would
 * therefore have the same. */
static void default_is_known(const struct table_of *t, const struct option *o)
{
	char *name AUTOFREE = default_name(t, o);
	for (size_t i = 0; i < sizeof known_defaults / sizeof *known_defaults; i++)
		if (strcmp(known_defaults[i].name, name) == 0)
			ck_assert_msg(
				o->incidental || strcmp(known_defaults[i].def, o->def) == 0,
				"%s: the default was %s, is %s: raise IDENTITY in identity.c, "
				"and write the new one into tests/reference/defaults.inc",
				name, known_defaults[i].def, o->def);
}

TEST(changed_defaults_change_every_identity)
{
	each_option(default_is_known);
}

static void hash_changes(const struct table_of *t, const struct option *o)
{
	char before[17], after[17], value[64];
	const char *part = strcmp(t->part, "run") == 0 ? NULL : t->part;
	char *name AUTOFREE = part ? sentence("%s.%s", t->owner, o->name) : sentence("%s", o->name);
	/* with initial-model given, the file of --init-from is not read */
	struct setting s[] = {{part ? part : "strategy", part ? t->owner : "periodic"},
			      {"initial-model", "0123456789abcdef"},
			      {name, value}};
	other_value(o, value, sizeof value);
	hash_given(s, 2, before);
	hash_given(s, 3, after);
	ck_assert_msg((strcmp(before, after) == 0) == o->incidental, "--%s=%s and the identity",
		      name, value);
}

TEST(config_hash_depends_on_every_deciding_option)
{
	each_option(hash_changes);
}

/* Runs with another interval are then neither other cells, nor have they another name. */
TEST(unread_interval_is_no_part_of_a_configuration, LISTED(strategies))
{
	const struct strategy *of = strategies[_i];
	const struct setting s[] = {{"strategy", of->plugin.name}, {"sync-every", "4"}};
	const bool reads = strategy_has_interval(of);
	struct config c AUTOCONFIG = {0};
	char one[17], four[17];
	hash_given(s, 1, one);
	hash_given(s, 2, four);
	made(&c, s, 2);
	ck_assert_int_eq(strcmp(one, four) != 0, reads);
	ck_assert_int_eq(c.run.sync_every, reads ? 4 : 1);
	ck_assert_int_eq(c.interval_ignored, reads ? 0 : 4);
}

TEST(config_words_reproduce_the_configuration)
{
	const struct setting s[] = {{"strategy", "periodic"},      {"periodic.start", "5"},
				    {"lr", "0.30000000000000004"}, {"label", "two words"},
				    {"workload", "mlp"},           {"mlp.hidden", "64"}};
	struct config a AUTOCONFIG = {0}, b AUTOCONFIG = {0};
	struct arguments args;
	char x[17], y[17];
	int n = 0;
	made(&a, s, 6);
	char **words = config_words(&a);
	while (words[n])
		n++;
	ck_assert_ptr_null(arguments_read(&args, n, words, NULL, NULL));
	made(&b, args.option, args.options);
	config_hash(&a, x);
	config_hash(&b, y);
	ck_assert_str_eq(x, y);
	ck_assert_str_eq(b.harness.label, "two words");
	ck_assert_double_eq(a.run.lr, b.run.lr);
	arguments_free(&args);
	free_words(words);
}

/* ---- Schedules ----------------------------------------------------------- */

static double rate(const char *schedule, int64_t epoch, double fraction)
{
	struct run run = {.lr = 1, .lr_schedule = schedule, .lr_scale = "none", .epochs = 82};
	return lr_at(&run, 4, epoch, fraction);
}

TEST(lr_schedules_have_expected_values)
{
	static const struct {
		const char *schedule;
		int64_t epoch;
		double fraction, lr;
	} row[] = {
		{"constant", 40, 0.5, 1},
		{"step:41:61", 41, 0.999, 1},
		{"step:41:61", 42, 0, 0.1},
		{"step:41:61", 62, 0, 0.01},
		{"step:41:61:x0.5", 82, 0.5, 0.25},
		{"step:0.5", 1, 0.75, 0.1},
		{"cosine", 1, 0, 1},
		{"cosine", 42, 0, 0.5},
		{"cosine:0.2", 42, 0, 0.6},
		{"cosine", 83, 0, 0},
		{"warmup:5", 1, 0, 0.1},
		{"warmup:5", 3, 0.5, 0.55},
		{"warmup:5", 6, 0, 1},
		{"warmup:5+step:41:x0.1", 2, 0.5, 0.37},
		{"warmup:5+step:41:x0.1", 42, 0, 0.1},
		{"warmup:2+cosine", 3, 0, 1},
		{"warmup:2+cosine", 43, 0, 0.5},
		{"warmup:5:0.5", 1, 0, 0.5},
		{"warmup:5:0", 2, 0, 0.2},
		{"warmup:4:0.2+step:1:x0.5", 3, 0, 0.3},
		{"warmup:5:base", 1, 0, 1},
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		char *wrong =
			lr_schedule_check(option_find(run_options, "lr-schedule"), row[i].schedule);
		ck_assert_msg(!wrong, "%s", wrong);
		ck_assert_double_eq_tol(rate(row[i].schedule, row[i].epoch, row[i].fraction),
					row[i].lr, 1e-12);
	}
}

TEST(learning_rate_scales_with_workers)
{
	struct run run = {.lr = 0.1, .lr_schedule = "constant", .lr_scale = "linear", .epochs = 1};
	ck_assert_double_eq_tol(lr_at(&run, 4, 1, 0), 0.4, 1e-15);
	run.lr_scale = "sqrt";
	ck_assert_double_eq_tol(lr_at(&run, 4, 1, 0), 0.2, 1e-15);
	/* from the rate of one trainer to that of nine, in two epochs */
	run.lr_schedule = "warmup:2:base+constant";
	ck_assert_double_eq_tol(lr_at(&run, 9, 1, 0), 0.1, 1e-15);
	ck_assert_double_eq_tol(lr_at(&run, 9, 2, 0), 0.2, 1e-15);
	run.lr_scale = "linear";
	ck_assert_double_eq_tol(lr_at(&run, 9, 1, 0), 0.1, 1e-15);
	ck_assert_double_eq_tol(lr_at(&run, 9, 2, 0), 0.5, 1e-15);
	ck_assert_double_eq_tol(lr_at(&run, 9, 3, 0), 0.9, 1e-15);
}

TEST(invalid_lr_schedules_are_refused)
{
	static const char *const bad[] = {"",          "steps:3",       "step",
					  "step:",     "step:3:2",      "step:x0.1",
					  "step:3:x",  "step:3:x0",     "step:3x0.1",
					  "cosine:2",  "cosine:",       "cosinex",
					  "warmup:0",  "warmup",        "warmup:1+",
					  "+constant", "step:1+cosine", "warmup:1+warmup:2",
					  "warmup:1:", "warmup:1:2",    "warmup:1:bases",
					  "step:nan",  "step:-1",       "constant+constant"};
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		char *wrong AUTOFREE =
			lr_schedule_check(option_find(run_options, "lr-schedule"), bad[i]);
		ck_assert_msg(wrong != NULL, "%s is accepted", bad[i]);
	}
}

/* ---- Plans --------------------------------------------------------------- */

static char *planned(const struct setting *s, size_t n, struct plan *p)
{
	struct config c AUTOCONFIG = {0};
	made(&c, s, n);
	return plan_make(&c, p);
}

TEST(plans_count_parameters_and_steps)
{
	const struct setting s[] = {{"workload", "perceptron"},
				    {"strategy", "allreduce"},
				    {"workers", "3"},
				    {"batch", "7"}};
	struct plan p;
	char *wrong = planned(s, 4, &p);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_int_eq(p.params, 1201);
	ck_assert_uint_eq(p.train.n, 10000);
	ck_assert_int_eq(p.steps, 477); /* 10000 / 21, rounded up */
	ck_assert_int_ge(p.cores, 1);
	ck_assert_int_eq(p.oversubscribed, p.cores < 3);
	ck_assert_str_eq(p.device, "cpu");
}

/* B heads T^2 floats a layer. */
TEST(plans_count_the_memory_of_attention)
{
	struct setting s[] = {{"workload", "gpt"},
			      {"batch", "3"},
			      {"gpt.context", "128"},
			      {"gpt.heads", "2"},
			      {"gpt.layers", "0"}};
	struct plan p;
	size_t bytes[3];
	for (int i = 0; i < 3; i++) {
		s[3].value = i == 2 ? "4" : "2";
		s[4].value = i == 0 ? "1" : "2";
		char *wrong AUTOFREE = planned(s, 5, &p);
		ck_assert_msg(!wrong, "%s", wrong);
		bytes[i] = p.footprint.activations;
	}
	ck_assert_uint_gt(bytes[1] - bytes[0], 3 * 2 * 128 * 128 * sizeof(float));
	ck_assert_uint_eq(bytes[2] - bytes[1], 2 * 3 * 2 * 128 * 128 * sizeof(float));
}

/* Simulations of time only keep no models, and machines of a hostfile have their own memory. */
TEST(plans_refuse_only_snapshots_of_this_machine)
{
	const struct setting s[] = {
		{"workload", "perceptron"},      {"strategy", "asgd"},     {"workers", "1000"},
		{"barrier-every", "0"},          {"epochs", "1000000"},    {"platform", "sim"},
		{"sim.platform", "gpu4_nvlink"}, {"sim.step-time", "1ms"}, {"sim.train", "false"}};
	struct plan p;
	char *trains AUTOFREE = planned(s, 8, &p), *none AUTOFREE = planned(s, 9, &p);
	ck_assert_msg(trains && strstr(trains, "--barrier-every=0"), "%s", trains);
	ck_assert_msg(!none, "%s", none);
	setenv("OMPI_COMM_WORLD_SIZE", "1000", 1);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1", 1);
	char *apart AUTOFREE = planned(s, 5, &p);
	ck_assert_msg(!apart, "%s", apart);
	setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "1000", 1);
	char *together AUTOFREE = planned(s, 5, &p);
	ck_assert_ptr_nonnull(together);
}

TEST(plans_count_model_parallel_workers_as_one_model)
{
	const struct setting s[] = {{"workload", "perceptron"},
				    {"strategy", "model_parallel"},
				    {"workers", "2"},
				    {"batch", "10"}};
	struct plan p;
	char *wrong = planned(s, 4, &p);
	ck_assert_msg(!wrong, "%s", wrong);
	ck_assert_int_eq(p.params, 1201);
	ck_assert_int_eq(p.steps, 1000);
}

TEST(invalid_plans_are_refused)
{
	static const struct {
		struct setting s[4];
		size_t n;
		const char *says;
	} row[] = {
		{{{"workers", "2"}}, 1, "serial"},
		{{{"servers", "1"}}, 1, "--servers=1"},
		{{{"workload", "mlp"}, {"data-dir", "/nowhere"}}, 2, "/nowhere"},
		{{{"hostfile", "/nowhere"}}, 1, "--hostfile=/nowhere"},
		{{{"placement", "1@0,1@1"}}, 1, "a --hostfile"},
		{{{"train-rows", "99999999"}}, 1, "--train-rows=99999999: there are"},
		{{{"workload", "perceptron"}, {"strategy", "model_parallel"}, {"workers", "101"}},
		 3,
		 "100"},
	};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct plan p;
		char *wrong AUTOFREE = planned(row[i].s, row[i].n, &p);
		ck_assert_msg(wrong && strstr(wrong, row[i].says), "%s: %s", row[i].says,
			      wrong ? wrong : "is accepted");
	}
}

/* A workload that cannot be split keeps its model whole; strategies that split it are refused. */
TEST(model_parallel_refuses_unsplittable_models)
{
	static const struct {
		const char *strategy, *group;
		bool refused;
	} row[] = {{"model_parallel", NULL, true},
		   {"hybrid", "2", true},
		   {"hybrid", "1", false},
		   {"allreduce", NULL, false}};
	struct workload whole = *(const struct workload *)plugin_find(PART_WORKLOAD, "perceptron");
	whole.split = NULL;
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		const struct setting s[] = {{"workload", "perceptron"},
					    {"workers", "2"},
					    {"strategy", row[i].strategy},
					    {"hybrid.group", row[i].group}};
		struct config c AUTOCONFIG = {0};
		struct plan p;
		made(&c, s, row[i].group ? 4 : 3);
		c.workload = &whole;
		char *wrong AUTOFREE = plan_make(&c, &p);
		ck_assert_msg(!wrong == !row[i].refused, "%s: %s", row[i].strategy,
			      wrong ? wrong : "is accepted");
		char *named AUTOFREE = sentence("--strategy=%s", row[i].strategy);
		ck_assert_msg(!wrong || (strstr(wrong, named) && strstr(wrong, "perceptron")), "%s",
			      wrong);
	}
}

TEST(plans_need_mpirun)
{
	const struct setting s[] = {
		{"workload", "perceptron"}, {"strategy", "asgd"}, {"workers", "2"}};
	struct plan p;
	setenv("PATH", "/nowhere", 1);
	char *wrong AUTOFREE = planned(s, 3, &p);
	ck_assert_ptr_nonnull(wrong);
	ck_assert_ptr_nonnull(strstr(wrong, "openmpi-bin"));
	/* one worker, which may be on another machine */
	char *hosts AUTOFREE = file_in_memory("elsewhere\n");
	const struct setting far[] = {{"workload", "perceptron"}, {"hostfile", hosts}};
	char *again AUTOFREE = planned(far, 2, &p);
	ck_assert_msg(again && strstr(again, "openmpi-bin"), "%s", again);
}
