/*
 * check_layers.c - the layers of the code base hold, and their check (layers.sh) finds what breaks
 * them: a call, a library, an include, a declaration, state in a plug-in. Names in documents and
 * comments exist (readme.sh, comments.sh). The licences of linked libraries are known
 * (licences.sh). Long functions have names of their own (names.sh). `make test` shows the time left
 * (lanes.sh), and `make demo` where its results are (demo.sh).
 */
#include "tests/fixture.h"
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>

static const struct plant {
	const char *file; /* of the tree, compiled when it is a .c */
	const char *text, *says;
} plants[] = {
	{NULL, NULL, "layers: ok"},
	{"runtime/base/planted.c", "int train(); int planted(void) { return train(); }",
	 "runtime/base/planted.o calls train of "},
	{"runtime/train/planted.c", "int launch(); int planted(void) { return launch(); }",
	 "runtime/train is not above runtime/launch"},
	{"results/ask/planted.c",
	 "int sqlite3_open(); int planted(void) { return sqlite3_open(); }",
	 "results/ask/planted.o uses sqlite3_open "},
	{"runtime/table/planted.c",
	 "int MPI_Barrier(); int planted(void) { return MPI_Barrier(); }",
	 "runtime/table/planted.o uses MPI_Barrier "},
	{"strategies/planted.c", "int link_rank(); int planted(void) { return link_rank(); }",
	 "strategies/planted.o calls link_rank   <- it is not in the contract"},
	{"workloads/planted.c", "int planted(void) { static int calls; return ++calls; }",
	 "bytes of mutable state"},
	{"runtime/comm/planted.h", "#include \"results/db/db.h\"\n",
	 "runtime/comm/planted.h includes results/db/db.h"},
	{"runtime/base/planted.h", "# include \"results/db/db.h\"\n",
	 "runtime/base/planted.h includes results/db/db.h"},
	{"runtime/device/planted.h", "int train(void);\n",
	 "runtime/device/planted.h declares train"},
	/* its users would have the fields of all options */
	{"runtime/cli/planted.h", "#include \"runtime/config/config.h\"\n",
	 "runtime/cli/planted.h includes runtime/config/config.h"},
	{"runtime/comm/planted.h", "#include \"runtime/config/run.h\"\n",
	 "runtime/comm/planted.h includes runtime/config/run.h"},
	/* open.o calls database_error */
	{"results/db/planted.c",
	 "int store_open(); int database_error(void) { return store_open(); }",
	 "a circle of files: results/db/"},
};

CASE("layers", .limit = 60);

TEST(layers_hold_and_violations_are_found, COUNT(plants))
{
	const struct plant *p = &plants[_i];
	const char *home = getenv("MVBENCH_HOME");
	char out[32768];
	if (!home)
		skipped("MVBENCH_HOME does not say where the sources are");
	if (!home || lacks_program("nm") || lacks_program("cc"))
		return;
	folder_new();
	char *copy AUTOFREE = sentence(
		"mkdir %s/build %s/tree && cp -as \"$PWD\"/runtime \"$PWD\"/strategies "
		"\"$PWD\"/workloads \"$PWD\"/results \"$PWD\"/plots \"$PWD\"/sim \"$PWD\"/main.o "
		"\"$PWD\"/libmvbench.so %s/build && cd %s && cp -as %s/runtime %s/strategies "
		"%s/workloads %s/results %s/plots %s/sim %s/mvbench.h %s/main.c %s/tree",
		folder, folder, folder, home, home, home, home, home, home, home, home, home,
		folder);
	expect_command(0, copy, "");
	if (p->file) {
		char *name AUTOFREE = sentence("tree/%s", p->file);
		char *compile AUTOFREE =
			sentence("cd %s/tree && f=%s && { [ $f = ${f%%.c} ] || "
				 "cc -w -std=gnu89 -O0 -c $f -o ../build/${f%%.c}.o; } 2>&1",
				 folder, p->file);
		folder_text(name, p->text);
		expect_command(0, compile, "");
	}
	char *command AUTOFREE = sentence("sh %s/tests/scripts/layers.sh %s/build %s/tree 2>&1",
					  home, folder, folder);
	int status = command_output(command, out, sizeof out);
	ck_assert_msg((status == 0) == (p->file == NULL) && strstr(out, p->says), "%d: %.2000s",
		      status, out);
	folder_free();
}

/* readme.sh BUILD [SOURCES]: every name in a README exists. */
TEST(names_in_documents_exist)
{
	const char *home = getenv("MVBENCH_HOME");
	if (!home) {
		skipped("MVBENCH_HOME does not say where the sources are");
		return;
	}
	char *command AUTOFREE = sentence("bash %s/tests/scripts/readme.sh . 2>&1", home);
	expect_command(0, command, "");
}

static const struct comment {
	const char *text, *says; /* of the planted file; NULL: nothing */
} comments[] = {
	{"/* planted.c, of here/planted.c; p*.c */ // NAME.h, io/other.h\n", NULL},
	{"/* a 'c' */ char *s = \"/* gone.c\", c = '\"'; /* planted.c */\n", NULL},
	{"/* one\n * gone.c */\n", "planted.c:2: there is no file gone.c\n"},
	{"char c = '\"'; // gone.sql\n", "planted.c:1: there is no file gone.sql\n"},
	{"/* \"gone.cu\" */\n", "planted.c:1: there is no file gone.cu\n"},
	{"/* (here/gone.h). */\n", "planted.c:1: there is no file here/gone.h\n"},
	{"/* here/planted.c */ /* gone/here.c or planted.h */\n", "there is no file planted.h\n"},
};

/* comments.sh [SOURCES]: every file that a comment names exists. */
TEST(files_named_in_comments_exist, COUNT(comments))
{
	const struct comment *k = &comments[_i];
	const char *home = getenv("MVBENCH_HOME");
	char out[4096];
	if (!home) {
		skipped("MVBENCH_HOME does not say where the sources are");
		return;
	}
	folder_new();
	char *touch AUTOFREE = sentence("mkdir %s/here && touch %s/here/planted.c %s/NAMED.h",
					folder, folder, folder),
		    *command AUTOFREE =
			    sentence("sh %s/tests/scripts/comments.sh %s 2>&1", home, folder);
	expect_command(0, touch, "");
	folder_text("planted.c", k->text);
	int status = command_output(command, out, sizeof out);
	ck_assert_msg((status == 0) == !k->says && (k->says ? strstr(out, k->says) != NULL : !*out),
		      "%d: %s", status, out);
	folder_free();
}

static const struct twins {
	int lines;             /* of each of two functions */
	const char *name[2];   /* in planted/a.c and planted/b.c */
	const char *begins[2]; /* of their definitions */
	const char *says;      /* NULL: nothing */
} twins[] = {
	{11, {"one_a", "one_b"}, {"static void ", "static void "}, NULL},
	{10, {"one", "one"}, {"static void ", "static void "}, NULL},
	{11, {"one", "one"}, {"static void ", "static void "}, "planted/b.c:2: one: another file"},
	{11, {"one", "one"}, {"void ", "static\nvoid "}, "planted/b.c:3: one: another file"},
	{11,
	 {"one", "one"},
	 {"static void ", "static inline __attribute__((always_inline)) void "},
	 "planted/b.c:2: one: another file"},
};

/* names.sh [SOURCES]: a long static function has a name of its own. */
TEST(long_static_functions_have_own_names, COUNT(twins))
{
	const struct twins *k = &twins[_i];
	const char *home = getenv("MVBENCH_HOME");
	char out[4096];
	if (!home) {
		skipped("MVBENCH_HOME does not say where the sources are");
		return;
	}
	folder_new();
	char *folders AUTOFREE = sentence("mkdir %s/planted", folder),
		      *command AUTOFREE =
			      sentence("sh %s/tests/scripts/names.sh %s 2>&1", home, folder);
	expect_command(0, folders, "");
	for (int i = 0; i < 2; i++) {
		char *text AUTOFREE =
			sentence("%s%s(void)\n{\n%.*s}\n", k->begins[i], k->name[i], 3 * k->lines,
				 "\t;\n\t;\n\t;\n\t;\n\t;\n\t;\n\t;\n\t;\n\t;\n\t;\n\t;\n");
		folder_text(i == 0 ? "planted/a.c" : "planted/b.c", text);
	}
	int status = command_output(command, out, sizeof out);
	ck_assert_msg((status == 0) == !k->says && (k->says ? strstr(out, k->says) != NULL : !*out),
		      "%d: %s", status, out);
	folder_free();
}

static const struct edit {
	const char *sed, *says; /* of the page */
} edits[] = {
	{"", "licences: ok, "},
	{"/libexpat/d", "libexpat.so.1, which mvbench-sim is linked with, has no row in "},
	{"s/| Zlib |/| |/", "libz.so has no licence"},
	{"s/LGPL-2.1-only/GPL-3.0-only/", "libsimgrid.so is under GPL-3.0-only, without an exc"},
	{"s/ WITH GCC-exception-3.1//", "libgomp.so is under GPL-3.0-or-later, without an exc"},
	{"s/`mvbench-sim` | libsimgrid/`mvbench` | libsimgrid/",
	 "mvbench-sim is linked with libsimgrid.so too"},
};

/* licences.sh BUILD [PAGE] */
TEST(licences_of_linked_libraries_are_known, COUNT(edits))
{
	const struct edit *e = &edits[_i];
	const char *home = getenv("MVBENCH_HOME");
	char out[4096];
#ifdef __SANITIZE_ADDRESS__
	skipped("a sanitizer links libraries of its own");
	return;
#endif
	if (!home)
		skipped("MVBENCH_HOME does not say where the sources are");
	if (!home || lacks_program("readelf"))
		return;
	folder_new();
	char *command AUTOFREE = sentence("sed '%s' %s/.github/LICENSES.md >%s/page && "
					  "sh %s/tests/scripts/licences.sh . %s/page 2>&1",
					  e->sed, home, folder, home, folder);
	int status = command_output(command, out, sizeof out);
	ck_assert_msg((status == 0) == !*e->sed && strstr(out, e->says), "%d: %s", status, out);
	folder_free();
}

/* Three suites of a second each. They took 10, 10 and 30 s on another machine. */
TEST(tests_show_the_time_left)
{
	static const char check[] =
		"#!/bin/sh\n"
		"for s in one two three; do\n"
		"\tmkdir $MVBENCH_TEST_LANE/$s 2>/dev/null && sleep 1 && echo $s: 1 s\n"
		"done\n"
		"echo '100%: Checks: 1, Failures: 0, Errors: 0'\n"
		"echo skipped 0\n";
	const char *home = getenv("MVBENCH_HOME");
	char out[8192];
	if (!home)
		skipped("MVBENCH_HOME does not say where the sources are");
	if (!home || lacks_program("pkill"))
		return;
	folder_new();
	folder_text("check", check);
	folder_text("check_main.c", " suites[] = {\"one\", \"two\", \"three\"};\n");
	folder_text("suites.txt", "one 10\ntwo 10\nthree 30\n");
	char *command AUTOFREE = sentence(
		"cd %s && mkdir home home/tests lane && mv check_main.c suites.txt home/tests && "
		"chmod +x check && mv check lane && env -u CK_RUN_SUITE -u WITHOUT "
		"MVBENCH_HOME=$PWD/home sh %s/tests/scripts/lanes.sh lane 1 2>&1",
		folder, home);
	ck_assert_msg(command_output(command, out, sizeof out) == 0, "%s", out);
	ck_assert_msg(strstr(out, "1/3 suites, one: 1 s; about 4 s left\n") &&
			      strstr(out, "2/3 suites, two: 1 s; about 3 s left\n") &&
			      strstr(out, "3/3 suites, three: 1 s\n"),
		      "%s", out);
	folder_free();
}

/* The program only prints its words. */
TEST(demo_ends_with_its_report_and_the_tutorial)
{
	static const char program[] = "#!/bin/sh\nmkdir -p ${0%/*}/demo\necho \"$@\"\n";
	const char *home = getenv("MVBENCH_HOME");
	char out[8192];
	if (!home)
		skipped("MVBENCH_HOME does not say where the sources are");
	if (!home || lacks_program("gnuplot"))
		return;
	folder_new();
	folder_text("mvbench", program);
	char *command AUTOFREE = sentence(
		"chmod +x %s/mvbench && sh %s/tests/scripts/demo.sh %s 2>&1", folder, home, folder);
	ck_assert_msg(command_output(command, out, sizeof out) == 0, "%s", out);
	char *report AUTOFREE = sentence("file://%s/demo/report.html\n", folder);
	const char *page = strstr(out, report);
	ck_assert_msg(page && strstr(page, "/plots/TUTORIAL.md\n"), "%s", out);
	folder_free();
}
