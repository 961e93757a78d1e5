/*
 * check_bindings.c - libmvbench in LuaJIT: the binding has every function of the header, passes
 * structs as C lays them out, does what its page says, refuses mistakes with a message, and the
 * seeds' programs end at the same parameters as those in C.
 */
#include "tests/suites.h"
#include "tests/fixture.h"
#include "tests/shell.h"
#include "runtime/lib/libmvbench.h"

#include <check.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where the interpreters find the bindings and the library of this build. */
#define FIND \
	"export LUA_PATH=\"$MVBENCH_HOME/runtime/lib/?.lua;$PWD/?.lua;" \
	"$MVBENCH_HOME/tests/seeds/lua/?.lua;;\" " \
	"LD_LIBRARY_PATH=\"$PWD:$LD_LIBRARY_PATH\"; "

/* Can the binding of this language run here? Otherwise the test counts as skipped. */
static bool have(const char *program)
{
#ifdef __SANITIZE_ADDRESS__
	skipped("interpreters cannot load a library that is built with a sanitizer");
	return false;
#endif
	return !lacks_program(program);
}

/* ---- One list of functions --------------------------------------------------------------------
 */

START_TEST(bindings_have_every_function_of_the_header)
{
	if (have("luajit"))
		run(0, FIND "$MVBENCH_HOME/tests/scripts/bindings.sh "
			    "$MVBENCH_HOME/runtime/lib/libmvbench.h");
}
END_TEST

START_TEST(function_that_a_binding_lacks_is_named)
{
	if (!have("luajit"))
		return;
	run(1,
	    FIND "cd %s && { cat $MVBENCH_HOME/runtime/lib/libmvbench.h && "
		 "echo 'int mvb_table_shrink(struct mvb_table *t, size_t n);'; } >more.h && "
		 "$MVBENCH_HOME/tests/scripts/bindings.sh more.h",
	    folder);
	ck_assert_str_eq(printed, "mvbench.lua lacks mvb_table_shrink\n");
}
END_TEST

/* "size offset offset ..." of each struct, as the compiler lays it out. */
static void c_layout(char *out, size_t room)
{
#define AT(type, field) offsetof(struct type, field)
	snprintf(out, room,
		 "%zu %zu %zu %zu %zu %zu %zu\n%zu %zu %zu %zu %zu %zu %zu\n%zu %zu %zu %zu %zu\n",
		 sizeof(struct mvb_setup), AT(mvb_setup, servers), AT(mvb_setup, tables),
		 AT(mvb_setup, file), AT(mvb_setup, rank), AT(mvb_setup, size),
		 AT(mvb_setup, timeout_s), sizeof(struct mvb_options), AT(mvb_options, updater),
		 AT(mvb_options, rounds), AT(mvb_options, backup), AT(mvb_options, bounded),
		 AT(mvb_options, lead), AT(mvb_options, initial), sizeof(struct mvb_push),
		 AT(mvb_push, lr), AT(mvb_push, momentum), AT(mvb_push, rho), AT(mvb_push, lambda));
}

START_TEST(bindings_lay_structs_out_as_c)
{
	char want[512];
	if (!have("luajit"))
		return;
	c_layout(want, sizeof want);
	run(0,
	    FIND "luajit -e \"local f = require 'ffi'; require 'mvbench'; "
		 "for s, names in ('setup servers tables file rank size timeout_s;"
		 "options updater rounds backup bounded lead initial;push lr momentum rho lambda;')"
		 ":gmatch '(%%a+) ([^;]*);' do s = 'struct mvb_' .. s; io.write(f.sizeof(s)); "
		 "for n in names:gmatch '[%%a_]+' do io.write(' ', (f.offsetof(s, n))) end "
		 "print() end\"");
	ck_assert_str_eq(printed, want);
}
END_TEST

/* ---- LuaJIT
 * -------------------------------------------------------------------------------------- */

START_TEST(lua_binding_works_and_refuses_mistakes)
{
	static const char *const how[] = {"1", "2", "4", "2 onesided", "3 servers 1"};
	char n[2] = {how[_i][0], 0};
	if (!have("luajit"))
		return;
	run(0, FIND MPIRUN "%s luajit $MVBENCH_HOME/tests/lib/binding.lua%s", n, how[_i] + 1);
	ck_assert_str_eq(printed, "done\n");
}
END_TEST

/* The numbers of all lines with parameters; returns how many. */
static int parameters(float *x, int room)
{
	int n = 0;
	for (char *line = printed; (line = strstr(line, "parameters: ")) != NULL;) {
		line += strlen("parameters: ");
		for (char *end; n < room; line = end) {
			float value = strtof(line, &end);
			if (end == line)
				break;
			x[n++] = value;
			if (*end == '\n')
				break;
		}
	}
	return n;
}

/* Where the order of pushes is not given, sums of each round may be rounded differently. */
static const struct {
	const char *lua, *c;
	int workers, parameters;
	bool exact;
} pair[] = {
	{"tutorial.lua", "tutorial", 1, 24, .exact = true},
	{"tutorial.lua rounds", "tutorial rounds", 2, 24, .exact = false},
	{"tutorial.lua rounds", "tutorial rounds", 4, 24, .exact = false},
	{"data_parallel.lua", "data_parallel parameters", 1, 585, .exact = true},
	{"data_parallel.lua", "data_parallel parameters", 2, 585, .exact = true},
	{"data_parallel.lua", "data_parallel parameters", 4, 585, .exact = true},
};
enum { PAIRS = sizeof pair / sizeof *pair, PARAMETERS = 1000 };

START_TEST(lua_programs_end_at_the_parameters_of_c)
{
	static float lua[PARAMETERS], c[PARAMETERS];
	if (!have("luajit"))
		return;
	run(0, FIND MPIRUN "%d luajit $MVBENCH_HOME/tests/seeds/lua/%s", pair[_i].workers,
	    pair[_i].lua);
	ck_assert_int_eq(parameters(lua, PARAMETERS), pair[_i].parameters);
	run(0, MPIRUN "%d tests/seeds/%s", pair[_i].workers, pair[_i].c);
	ck_assert_int_eq(parameters(c, PARAMETERS), pair[_i].parameters);
	for (int i = 0; i < pair[_i].parameters; i++)
		ck_assert_msg(fabsf(lua[i] - c[i]) <= (pair[_i].exact ? 0 : 1e-6f),
			      "parameter %d: %.9g, in C %.9g", i, (double)lua[i], (double)c[i]);
}
END_TEST

START_TEST(lua_program_without_rounds_learns)
{
	if (!have("luajit"))
		return;
	run(0, FIND MPIRUN "2 luajit $MVBENCH_HOME/tests/seeds/lua/tutorial.lua");
	expect("everyone's model, epoch 200");
}
END_TEST

/* A worker that ends with an error ends the others, too. */
#define ENDS_ALL \
	"2 sh -c 'echo $$ >>%s/pids; exec %s'; s=$?; [ $s != 124 ] || echo it hangs; " \
	"for p in $(cat %s/pids); do grep -s State /proc/$p/status | grep -v zombie && " \
	"echo $p is left; done; [ $s != 0 ]"

START_TEST(lua_program_that_fails_leaves_no_process)
{
	char *program =
		sentence("luajit -e \"local m = require \\\"mvbench\\\"; m.init(); "
			 "if m.is_master then error(\\\"no data\\\") end m.allReduce {1}\"");
	if (have("luajit"))
		run(0, FIND MPIRUN ENDS_ALL, folder, program, folder);
	free(program);
	if (*printed) {
		expect("no data");
		ck_assert_msg(!strstr(printed, "is left") && !strstr(printed, "hangs"), "%s",
			      printed);
	}
}
END_TEST

Suite *bindings_suite(void)
{
	Suite *s = suite_create("bindings");
	TCase *list = tcase_create("list");
	TCase *lua = tcase_create("lua");
	tcase_set_timeout(list, 120);
	tcase_set_timeout(lua, 240);
	tcase_add_checked_fixture(list, folder_new, folder_free);
	tcase_add_checked_fixture(lua, folder_new, folder_free);
	tcase_add_test(list, bindings_have_every_function_of_the_header);
	tcase_add_test(list, function_that_a_binding_lacks_is_named);
	tcase_add_test(list, bindings_lay_structs_out_as_c);
	tcase_add_loop_test(lua, lua_binding_works_and_refuses_mistakes, 0, 5);
	tcase_add_loop_test(lua, lua_programs_end_at_the_parameters_of_c, 0, PAIRS);
	tcase_add_test(lua, lua_program_without_rounds_learns);
	tcase_add_test(lua, lua_program_that_fails_leaves_no_process);
	suite_add_tcase(s, list);
	suite_add_tcase(s, lua);
	return s;
}
