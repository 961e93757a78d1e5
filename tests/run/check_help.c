/*
 * check_help.c - help, the manual page and word completion agree with the tables of the program.
 * The loops run over all commands and topics, so new ones are tested too.
 */
#include "runtime/cli/cli.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUTPUT = 300000 };

/* What mvbench prints for these words, on both streams; from the heap. */
static char *said(int status, const char *words)
{
	char *command AUTOFREE = sentence("./mvbench %s 2>&1", words), *out = must(malloc(OUTPUT));
	int got = command_output(command, out, OUTPUT);
	ck_assert_msg(got == status, "mvbench %s: status %d, not %d: %.2000s", words, got, status,
		      out);
	return out;
}

/* What a shell's command prints; from the heap. */
static char *command_text(const char *command)
{
	char *out = must(calloc(1, OUTPUT));
	command_output(command, out, OUTPUT);
	return out;
}

static void ck_says(int status, const char *words, const char *text)
{
	char *out AUTOFREE = said(status, words);
	ck_assert_msg(strstr(out, text), "mvbench %s lacks \"%s\":\n%.2000s", words, text, out);
}

/* ---- Topics -------------------------------------------------------------- */

/* Lines have at most this number of bytes. */
static void ck_narrow(const char *name, char *text, size_t most)
{
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		ck_assert_msg(strlen(line) <= most, "%s: %s", name, line);
}

CASE("help", .limit = 60, .set_up = folder_new, .tear_down = folder_free);

TEST(every_topic_has_a_text, 2)
{
	struct topic *all = topics_make();
	size_t most = _i ? 80 : 100;
	if (_i)
		setenv("COLUMNS", "80", 1);
	for (const struct topic *t = all; t->name; t++) {
		struct text printed;
		FILE *f = text_open(&printed);
		ck_assert_msg(*t->name && *t->summary, "a %s without name or summary", t->kind);
		char *name AUTOFREE = sentence("%s:%s", t->kind, t->name);
		ck_assert(topic_print(&(struct help){.f = f}, all, name));
		char *text AUTOFREE = text_close(&printed);
		ck_assert_msg(strlen(text) > strlen(t->name) + 20, "%s %s: %s", t->kind, t->name,
			      text);
		ck_narrow(t->name, text, most);
	}
	topics_free(all);
}

TEST(every_kind_of_name_has_a_topic)
{
	struct topic *all = topics_make();
	static const char *const some[] = {
		"command:run",       "command:help",     "option:sync-every",
		"option:easgd.beta", "option:where",     "option:mlp.hidden",
		"strategy:asgd",     "updater:momentum", "workload:softmax",
		"device:cpu",        "figure:speedup",   "platform:sim:titanx4",
		"table:run",         "table:epoch",      "table:run_summary",
		"page:exit-status",  "page:sweep-files", "page:database",
		"--easgd.beta=0.5",  "--workers"};
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		struct text t;
		FILE *f = text_open(&t);
		ck_assert_msg(topic_print(&(struct help){.f = f}, all, some[i]), "%s", some[i]);
		free(text_close(&t));
	}
	topics_free(all);
}

TEST(topics_are_found_or_the_nearest_is_named)
{
	ck_says(0, "help sync-every", "It is column sync_every of table run.");
	ck_says(0, "help --easgd.beta=0.3", "option of strategy easgd");
	ck_says(0, "help momentum", "updater momentum");
	ck_says(0, "help momentum", "--momentum=0 ");
	ck_says(0, "help run", "mvbench help table:run");
	ck_says(0, "help validation", "Columns: simulated_id, ");
	ck_says(0, "help worker", "word worker: a process that trains");
	ck_says(0, "help pull", "word pull: a worker copies a table");
	ck_says(0, "help parameter-server", "word parameter-server: where workers push to");
	ck_says(0, "help strategy", "word strategy: when and how workers exchange");
	ck_says(0, "help workload", "word workload: a model with its data set");
	ck_says(0, "help 2w", "2w is two workers, X=4 a synchronisation");
	ck_says(0, "help X=4", "2w is two workers");
	ck_says(0, "help undecided", "more seeds are needed");
	ck_says(0, "help table:run", "\n  git_commit TEXT\n");
	ck_says(0, "help table:staleness", "\n  PRIMARY KEY (run_id, epoch, staleness)\n");
	ck_says(0, "help words", "\n  consensus-distance ");
	ck_says(0, "help exit-status", "  130 ");
	ck_says(0, "help --eval-every=3", "It is column eval_every of table run.");
	ck_says(0, "help strategies", "\n  easgd ");
	ck_says(0, "help speedup allreduce", "strategy allreduce");
	ck_says(0, "help", "mvbench COMMAND --help and mvbench help TOPIC explain more");
	ck_says(2, "help asdg", "did you mean asgd?");
	ck_says(2, "help stale", "did you mean staleness?");
	ck_says(2, "help easgd.beat", "did you mean easgd.beta?");
	ck_says(2, "help --sync-evry", "did you mean sync-every?");
	ck_says(2, "help zzzzzzzzzzzz", "mvbench help topics lists");
	ck_says(2, "help --completion=zsh", "give one of none, bash");
	ck_says(2, "help --man=runn", "there is no such command");
	ck_says(2, "run --hlep", "did you mean --help?");
	ck_says(2, "table --hlep", "did you mean --help?");
	ck_says(2, "sweep demoo --dry-run", "did you mean demo?");
	ck_says(2, "run --platform=sim --sim.platform=10gbit",
		"--sim.platform=10gbit: unknown platform");
}

TEST(definition_of_word_is_first_of_its_topics)
{
	char *out AUTOFREE = said(0, "help staleness");
	ck_assert_msg(strncmp(out, "word staleness: ", 16) == 0, "%.200s", out);
	ck_assert_msg(strstr(out, "\nupdater staleness: "), "%.900s", out);
}

TEST(every_command_prints_its_help)
{
	for (const struct command *const *c = commands; *c; c++) {
		char *words AUTOFREE = sentence("%s --help", (*c)->name),
			    *out AUTOFREE = said(0, words);
		char *usage AUTOFREE = sentence("usage: mvbench %s %s\n", (*c)->name, (*c)->usage);
		ck_assert_msg(strncmp(out, usage, strlen(usage)) == 0, "%s: %.2000s", words, out);
		ck_assert_msg(*(*c)->summary && strlen((*c)->about) > 40, "%s", words);
		for (const struct option *o = (*c)->options; o && o->name; o++) {
			char *name AUTOFREE = sentence("\n  --%s", o->name);
			ck_assert_msg(strstr(out, name), "%s lacks%s", words, name);
			ck_assert_msg(strlen(o->help) > 10, "%s%s", words, name);
			ck_assert_ptr_eq(option_find((*c)->options, o->name), o);
		}
		ck_assert_msg(!(*c)->run_options || strstr(out, "mvbench run --help=all") ||
				      strstr(out, "\n  --workers="),
			      "%s", words);
	}
}

TEST(help_fits_the_terminal)
{
	setenv("COLUMNS", "80", 1);
	for (const struct command *const *c = commands; *c; c++) {
		char *words AUTOFREE = sentence("%s --help", (*c)->name),
			    *out AUTOFREE = said(0, words);
		ck_narrow((*c)->name, out, 80);
	}
	char *out AUTOFREE = said(2, ""), *all AUTOFREE = said(0, "run --help=all");
	ck_narrow("mvbench", out, 80);
	int lines = 0;
	char *some AUTOFREE = said(0, "run --help");
	for (const char *at = some; (at = strchr(at, '\n')); at++)
		lines++;
	ck_assert_msg(lines < 80, "%d lines", lines);
	for (const struct option *o = run_options; o->name; o++) {
		char *name AUTOFREE = sentence("\n  --%s", o->name);
		ck_assert_msg(strstr(all, name), "lacks%s", name);
		ck_assert_msg(!strstr(some, name) || o->core.common || strchr(name, '.') ||
				      strlen(name) < 8,
			      "has%s", name);
	}
}

/* On a terminal, long output goes through the user's pager. */
TEST(pager_shows_what_a_terminal_gets)
{
	if (lacks_program("script"))
		return;
#define TERMINAL(environment, command) \
	environment " script -qec 'stty cols 70 2>/dev/null; " command "' /dev/null | tr -d '\\r'"
	char *paged AUTOFREE =
		command_text(TERMINAL("MVBENCH_PAGER='sed s/^/+/'", "./mvbench list strategies"));
	char *plain AUTOFREE = command_text("MVBENCH_PAGER='sed s/^/+/' ./mvbench list strategies");
	char *none AUTOFREE = command_text(TERMINAL("MVBENCH_PAGER= ", "./mvbench run --help"));
	ck_assert_msg(*paged == '+' && strstr(paged, "\n+"), "%.900s", paged);
	ck_assert_msg(*plain && !strstr(plain, "\n+"), "%.900s", plain);
	ck_narrow("run", none, 70);
	/* the pipe to it has no width; the status is that of the command */
	char *help AUTOFREE = command_text(TERMINAL("PAGER=cut\\ -c2- MVBENCH_PAGER='sed s/^/+/'",
						    "./mvbench run --help; echo $?"));
	ck_assert_msg(strcmp(help + strlen(help) - 2, "0\n") == 0, "%.900s", help);
	ck_narrow("run", help, 71);
}

/* How a command reads its words depends on its row of the table alone. */
TEST(commands_report_wrong_words_alike)
{
	for (const struct command *const *c = commands; *c; c++) {
		char *help AUTOFREE = sentence("%s --no-such=1 --help", (*c)->name);
		char *one AUTOFREE = sentence("%s -x", (*c)->name);
		char *unknown AUTOFREE = sentence("%s --no-such-option=1", (*c)->name);
		char *word AUTOFREE = sentence("%s word", (*c)->name);
		char *usage AUTOFREE = sentence("usage: mvbench %s", (*c)->name);
		char *only AUTOFREE =
			sentence("word: %s takes options only, such as --", (*c)->name);
		ck_says(0, help, usage);
		ck_says(2, one, "-x: options begin with two dashes");
		if (strcmp((*c)->name, "help") == 0)
			ck_says(2, unknown, "there is no such topic");
		else if (!(*c)->run_options)
			ck_says(2, unknown, "--no-such-option: there is no such option; ");
		if ((*c)->example)
			ck_says(2, word, only);
	}
}

/* ---- The manual page ----------------------------------------------------- */

TEST(roff_escapes_requests)
{
	struct text t;
	FILE *f = text_open(&t);
	const struct help p = {.f = f, .roff = true};
	help_words(&p, ".so /etc/passwd\n'x \\fB --y");
	help_head(&p, 1, "a \"b\" .c");
	help_row(&p, "--x=\"", ".z");
	help_verbatim(&p, "one\n.two\n");
	char *text AUTOFREE = text_close(&t);
	ck_assert_str_eq(text, ".PP\n\\&.so /etc/passwd\n\\&\\(aqx \\efB \\-\\-y\n"
			       ".SH \"a \\(dqb\\(dq .c\"\n"
			       ".TP\n.B \"\\-\\-x=\\(dq\"\n\\&.z\n"
			       ".PP\n.nf\none\n\\&.two\n.fi\n");
}

static void ck_orders(char *page)
{
	static const char *const orders[] = {".TH ", ".SH ", ".SS ", ".PP",
					     ".TP",  ".B ",  ".nf",  ".fi"};
	for (char *line = strtok(page, "\n"); line; line = strtok(NULL, "\n")) {
		bool known = *line != '.' && *line != '\'';
		for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
			known |= strncmp(line, orders[i], strlen(orders[i])) == 0;
		ck_assert_msg(known, "%s", line);
	}
}

TEST(manual_has_all_commands_options_and_plugins)
{
	char *page AUTOFREE = said(0, "help --man");
	ck_assert_int_eq(strncmp(page, ".TH MVBENCH 1 ", 14), 0);
	for (const struct command *const *c = commands; *c; c++) {
		char *head AUTOFREE = sentence("\n.SS \"%s\"\n", (*c)->name);
		ck_assert_msg(strstr(page, head), "%s", (*c)->name);
	}
	ck_assert_ptr_nonnull(strstr(page, "\n.B \"\\-\\-sync\\-every=1\"\n"));
	ck_assert_ptr_nonnull(strstr(page, "\n.B \"\\-\\-easgd.beta=0.9\"\n"));
	ck_assert_ptr_nonnull(strstr(page, "\n.SS \"model_parallel\"\n"));
	ck_assert_ptr_nonnull(strstr(page, "\n.SH \"EXIT STATUS\"\n"));
	ck_orders(page);
	for (const struct command *const *c = commands; *c; c++) {
		char *words AUTOFREE = sentence("help --man=%s", (*c)->name);
		char *part AUTOFREE = said(0, words);
		ck_orders(part);
	}
}

TEST(manual_formats_without_a_warning)
{
	char out[4096];
	if (lacks_program("groff"))
		return; /* mvbench does not need groff */
	int status = command_output("./mvbench help --man | groff -man -ww -Tascii 2>&1 >/dev/null",
				    out, sizeof out);
	ck_assert_int_eq(status, 0);
	ck_assert_str_eq(out, "");
}

/* ---- Completion ---------------------------------------------------------- */

/* What bash offers for this line, with the cursor at the end of its last word. */
static void ck_offers(const char *words, const char *want)
{
	char out[20000];
	char *command AUTOFREE = sentence("bash -c 'source %s/c.bash; COMP_WORDS=(%s); "
					  "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _mvbench; "
					  "echo \"${COMPREPLY[*]}\"' 2>&1",
					  folder, words);
	int status = command_output(command, out, sizeof out);
	out[strcspn(out, "\n")] = '\0';
	ck_assert_msg(status == 0 && strcmp(out, want) == 0, "%s: %s", words, out);
}

static void write_script(const char *environment)
{
	char out[4096];
	char *command AUTOFREE = sentence("%s ./mvbench help --completion=bash >%s/c.bash && "
					  "bash -n %s/c.bash 2>&1",
					  environment, folder, folder);
	ck_assert_msg(command_output(command, out, sizeof out) == 0, "%s", out);
}

TEST(bash_completes_words)
{
	write_script("");
	ck_offers("mvbench sw", "sweep");
	ck_offers("mvbench run --strat", "--strategy=");
	ck_offers("mvbench run --dry", "--dry-run");
	ck_offers("mvbench run --strategy = as", "asgd"); /* as bash cuts the line */
	ck_offers("mvbench run --strategy=as", "--strategy=asgd");
	ck_offers("mvbench run --strategy asg", "asgd");
	ck_offers("mvbench run --strategy = easgd --ea",
		  "--easgd.beta= --easgd.order= --easgd.form=");
	ck_offers("mvbench run --optimizer = lion --lio", "--lion.beta1= --lion.beta2=");
	ck_offers("mvbench run --codec = powersgd --pow", "--powersgd.rank=");
	ck_offers("mvbench run --ea", "");
	ck_offers("mvbench run --easgd.", "--easgd.beta= --easgd.order= --easgd.form=");
	ck_offers("mvbench run --easgd.b", "--easgd.beta=");
	ck_offers("mvbench run --eval", "--eval-every=");
	ck_offers("mvbench run --judge", ""); /* the old name is accepted only */
	ck_offers("mvbench blame \"\"", "latest");
	ck_offers("mvbench run --asgd.updater = mom", "momentum momentum_ema");
	ck_offers("mvbench run --sim.platform = titan", "titanx4");
	ck_offers("mvbench run --sim.train = t", "true");
	ck_offers("mvbench run --format = \"\"", "text json");
	ck_offers("mvbench table --format = \"\"", "text markdown csv json latex");
	ck_offers("mvbench sweep demo --strategy = asgd,ea", "asgd,easgd");
	ck_offers("mvbench sweep shape9", "shape9_overlap");
	ck_offers("mvbench plot accuracy_ti", "accuracy_time");
	ck_offers("mvbench list dev", "devices");
	ck_offers("mvbench help easgd.b", "easgd.beta");
	ck_offers("mvbench help --man = sw", "sweep");
	ck_offers("mvbench nosuch --a", "");
	ck_offers("mvbench run --lr = \"\"", "");
	folder_put("a b.ini", "", 0, false);
	char *file AUTOFREE = sentence("mvbench sweep %s/a", folder);
	char *want AUTOFREE = sentence("%s/a b.ini", folder);
	ck_offers(file, want);
}

/* Figures and job files are found by their names, which go into a script. */
TEST(completion_omits_names_that_a_shell_would_run)
{
	char out[20000], *home AUTOFREE = sentence("MVBENCH_HOME=%s", folder);
	char *command AUTOFREE =
		sentence("cd %s && mkdir -p plots && echo '-- good' >plots/good.sql && "
			 "touch plots/good.gp && for n in 'a$(touch x)' 'b;touch x' "
			 "\"c'd\"; do echo '-- bad' >\"plots/$n.sql\"; "
			 "touch \"plots/$n.gp\"; done",
			 folder);
	ck_assert_int_eq(command_output(command, out, sizeof out), 0);
	write_script(home);
	ck_offers("mvbench plot \"\"", "good");
	char *counted AUTOFREE = sentence("grep -c touch %s/c.bash", folder);
	command_output(counted, out, sizeof out);
	ck_assert_str_eq(out, "0\n");
}
