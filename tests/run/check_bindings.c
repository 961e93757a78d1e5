/*
 * check_bindings.c - libmvbench in LuaJIT and in Python: the bindings have every function of the
 * header, pass structs as C lays them out, do what their pages say, and refuse mistakes with a
 * message. The seeds' programs in Lua end at the same parameters as those in C, PyTorch's losses
 * are those of DistributedDataParallel, and pip installs the wheel.
 */
#include "tests/suites.h"
#include "tests/fixture.h"
#include "tests/shell.h"
#include "runtime/lib/libmvbench.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Where the interpreters find the bindings and the library of this build. */
#define FIND \
	"export LUA_PATH=\"$MVBENCH_HOME/runtime/lib/?.lua;$PWD/?.lua;" \
	"$MVBENCH_HOME/tests/seeds/lua/?.lua;;\" " \
	"PYTHONPATH=\"$MVBENCH_HOME/runtime/lib:$PWD:$PYTHONPATH\" PYTHONDONTWRITEBYTECODE=1 " \
	"LD_LIBRARY_PATH=\"$PWD:$LD_LIBRARY_PATH\" OMP_NUM_THREADS=1; "

/* Can the binding of this language run here? Otherwise the test counts as skipped. */
static bool have(const char *program)
{
#ifdef __SANITIZE_ADDRESS__
	skipped("interpreters cannot load a library that is built with a sanitizer");
	return false;
#endif
	return !lacks_program(program);
}

/* ---- One list of functions ------------------------------------------------------ */

CASE("list", .limit = 120, .set_up = folder_new, .tear_down = folder_free);

TEST(bindings_have_every_function_of_the_header)
{
	if (have("luajit") && have("python3"))
		run(0, FIND "$MVBENCH_HOME/tests/scripts/bindings.sh "
			    "$MVBENCH_HOME/runtime/lib/libmvbench.h");
}

TEST(function_that_a_binding_lacks_is_named)
{
	if (!have("luajit") || !have("python3"))
		return;
	run(1,
	    FIND "cd %s && { cat $MVBENCH_HOME/runtime/lib/libmvbench.h && "
		 "echo 'int mvb_table_shrink(struct mvb_table *t, size_t n);'; } >more.h && "
		 "$MVBENCH_HOME/tests/scripts/bindings.sh more.h",
	    folder);
	ck_assert_str_eq(printed, "mvbench.lua lacks mvb_table_shrink\n"
				  "mvbench.py lacks mvb_table_shrink\n");
}

/* The structs and their fields, and "size offset offset ..." of each as the compiler lays it out.
 */
#define STRUCTS \
	"setup servers tables file rank size timeout_s later;" \
	"options updater rounds backup bounded lead initial later;push lr momentum rho lambda;" \
	"linear form inputs outputs w b dw db;linear_part inputs outputs first held w b;"
#define AT(type, field) offsetof(struct mvb_##type, field)
static const size_t layout[] = {
	sizeof(struct mvb_setup),
	AT(setup, servers),
	AT(setup, tables),
	AT(setup, file),
	AT(setup, rank),
	AT(setup, size),
	AT(setup, timeout_s),
	AT(setup, later),
	sizeof(struct mvb_options),
	AT(options, updater),
	AT(options, rounds),
	AT(options, backup),
	AT(options, bounded),
	AT(options, lead),
	AT(options, initial),
	AT(options, later),
	sizeof(struct mvb_push),
	AT(push, lr),
	AT(push, momentum),
	AT(push, rho),
	AT(push, lambda),
	sizeof(struct mvb_linear),
	AT(linear, form),
	AT(linear, inputs),
	AT(linear, outputs),
	AT(linear, w),
	AT(linear, b),
	AT(linear, dw),
	AT(linear, db),
	sizeof(struct mvb_linear_part),
	AT(linear_part, inputs),
	AT(linear_part, outputs),
	AT(linear_part, first),
	AT(linear_part, held),
	AT(linear_part, w),
	AT(linear_part, b),
};

/* The numbers of `printed` are those of `layout`. */
static void expect_layout(void)
{
	char *at = printed;
	for (size_t i = 0; i < COUNT(layout); i++)
		ck_assert_msg(strtoul(at, &at, 10) == layout[i], "number %zu: %s", i, printed);
	ck_assert_str_eq(at, "\n");
}

TEST(bindings_lay_structs_out_as_c)
{
	if (!have("luajit") || !have("python3"))
		return;
	run(0, FIND "python3 -c '\n"
		    "import ctypes, mvbench_abi as abi\n"
		    "for line in \"" STRUCTS "\".strip(\";\").split(\";\"):\n"
		    "    name, *fields = line.split()\n"
		    "    s = getattr(abi, \"mvb_\" + name)\n"
		    "    print(ctypes.sizeof(s), *(getattr(s, f).offset for f in fields))'");
	expect_layout();
	run(0, FIND
	    "luajit -e \"local f = require 'ffi'; require 'mvbench'; "
	    "for s, names in ('" STRUCTS "'):gmatch '([%%a_]+) ([^;]*);' do "
	    "s = 'struct mvb_' .. s; io.write(f.sizeof(s)); for n in names:gmatch '[%%a_]+' do "
	    "io.write(' ', (f.offsetof(s, n))) end print() end\"");
	expect_layout();
}

/* ---- LuaJIT --------------------------------------------------------------------- */

CASE("lua", .limit = 240, .set_up = folder_new, .tear_down = folder_free);

TEST(lua_binding_works_and_refuses_mistakes, 5)
{
	static const char *const how[] = {"1", "2", "4", "2 onesided", "3 servers 1"};
	char n[2] = {how[_i][0], 0};
	if (!have("luajit"))
		return;
	run(0, FIND MPIRUN "%s luajit $MVBENCH_HOME/tests/lib/binding.lua%s", n, how[_i] + 1);
	ck_assert_str_eq(printed, "done\n");
}

/* ---- LuaJIT: the programs of the pages ------------------------------------------ */

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
	{"model_parallel.lua", "model_parallel", 1, 12, .exact = false},
	{"model_parallel.lua", "model_parallel", 2, 12, .exact = false},
	{"model_parallel.lua", "model_parallel", 4, 12, .exact = false},
};
enum { PAIRS = sizeof pair / sizeof *pair, PARAMETERS = 1000 };

TEST(lua_programs_end_at_the_parameters_of_c, PAIRS)
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
		ck_assert_msg(fabsf(lua[i] - c[i]) <=
				      (pair[_i].exact ? 0 : 1e-6f * fmaxf(1, fabsf(c[i]))),
			      "parameter %d: %.9g, in C %.9g", i, (double)lua[i], (double)c[i]);
}

/* TorchAD-NN's layers in nn.Sequential; the program has what it needs of torch and nn. */
TEST(layers_of_torchad_nn_are_modules_of_nn, 4)
{
	if (!have("luajit"))
		return;
	run(0, FIND MPIRUN "%d luajit $MVBENCH_HOME/tests/lib/sequential.lua", _i + 1);
	ck_assert_str_eq(printed, "done\n");
}

TEST(lua_program_without_rounds_learns)
{
	if (!have("luajit"))
		return;
	run(0, FIND MPIRUN "2 luajit $MVBENCH_HOME/tests/seeds/lua/tutorial.lua");
	expect("everyone's model, epoch 200");
}

TEST(lua_init_takes_an_updater, 2)
{
	static const char *const setup[] = {"{updater = 'sgd', sync = true}",
					    "{updater = 'sgd', sync = true, servers = 1}"};
	if (!have("luajit"))
		return;
	run(0,
	    FIND MPIRUN
	    "%d luajit -e \"local m = require 'mvbench'; m.init%s; if m.is_server() then "
	    "assert(m.server_id() == 0) else local t = m.ArrayTableHandler:new(1); "
	    "t:add({1}, nil, {lr = 0.5}); local x = t:get()[0]; "
	    "if m.is_master then print(x) end end m.shutdown()\"",
	    2 + _i, setup[_i]);
	ck_assert_str_eq(printed, "-1\n");
}

/* ---- Python --------------------------------------------------------------------- */

CASE("python", .limit = 240, .set_up = folder_new, .tear_down = folder_free);

TEST(python_binding_works_and_refuses_mistakes, 6)
{
	static const struct {
		const char *workers, *floats;
	} how[] = {{"1", "array"},          {"2", "numpy"},           {"4", "numpy"},
		   {"2", "numpy onesided"}, {"3", "array servers 1"}, {"2", "torch"}};
	bool torch = strcmp(how[_i].floats, "torch") == 0;
	const char *python =
		!have("python3") ? NULL : python_with(torch ? "numpy, torch" : "numpy");
	if (!python)
		return;
	run(0, FIND MPIRUN "%s %s $MVBENCH_HOME/tests/lib/binding.py %s", how[_i].workers, python,
	    how[_i].floats);
	ck_assert_str_eq(printed, "done\n");
}

TEST(python_programs_of_the_page_run, 7)
{
	static const struct {
		const char *workers, *program, *prints;
	} how[] = {
		{"1", "shared.py", "all as expected"},
		{"4", "shared.py", "all as expected"},
		{"2", "shared.py torch", "all as expected"},
		{"2", "logistic.py 2", "Epoch: 2 Test accuracy: 0."},
		{"2", "logistic.py 1 torch", "Epoch: 1 Test accuracy: 0."},
		{"2", "perceptron.py 1", "Epoch: 1 Mean Squared Error: "},
		{"2", "perceptron.py 1 torch", "Epoch: 1 Mean Squared Error: "},
	};
	bool torch = strstr(how[_i].program, "torch");
	bool data = strncmp(how[_i].program, "logistic", 8) != 0 ||
		    system("ls /usr/share/datasets/fashion-mnist/*.gz >/dev/null 2>&1") == 0;
	const char *python =
		!have("python3") ? NULL : python_with(torch ? "numpy, torch" : "numpy");
	if (!python)
		return;
	run(data ? 0 : 77, FIND MPIRUN "%s %s $MVBENCH_HOME/tests/seeds/python/%s", how[_i].workers,
	    python, how[_i].program);
	expect(data ? how[_i].prints : "no Fashion-MNIST");
}

/* What Multiverso's own tests assert, and its pages call. */
TEST(package_multiverso_has_the_words_of_its_pages, 6)
{
	static const char *const how[] = {"1 %s", "2 %s",       "3 %s sync",
					  "4 %s", "1 %s torch", "2 %s torch"};
	const char *python =
		!have("python3") ? NULL : python_with(_i < 4 ? "numpy" : "numpy, torch");
	if (!python)
		return;
	char *program AUTOFREE = sentence("%s $MVBENCH_HOME/tests/lib/words.py", python);
	char *command AUTOFREE = sentence(how[_i], program);
	run(0, FIND MPIRUN "%s", command);
	ck_assert_str_eq(printed, "done\n");
}

TEST(workers_that_have_finished_block_no_round, 9)
{
	static const char *const how[] = {"1",           "2",           "4",
					  "3 servers 1", "4 servers 1", "1 onesided",
					  "2 onesided",  "3 onesided",  "4 onesided"};
	char n[2] = {how[_i][0], 0};
	if (!have("python3"))
		return;
	run(0, FIND MPIRUN "%s python3 $MVBENCH_HOME/tests/lib/finished.py%s", n, how[_i] + 1);
	ck_assert_str_eq(printed, "done\n");
}

TEST(gradients_of_pytorch_are_as_safe_as_distributed_data_parallel, 3)
{
	static const int workers[] = {1, 2, 4};
	const char *python = !have("python3") ? NULL : python_with("numpy, torch.distributed");
	if (!python)
		return;
	run(0, FIND MPIRUN "%d %s $MVBENCH_HOME/tests/lib/safe.py", workers[_i], python);
	expect("done\n");
}

/* torchrun sets these for each process of one machine. */
#define TORCHRUN "MASTER_PORT=%d TORCHELASTIC_RUN_ID=none RANK=$r WORLD_SIZE=%d LOCAL_WORLD_SIZE=2"

TEST(torchruns_variables_are_read)
{
	if (!have("python3"))
		return;
	run(0,
	    FIND "for r in 0 1; do " TORCHRUN
		 " TMPDIR=%s timeout 60 python3 -c 'import mvbench; from array import array; "
		 "mvbench.init(); import os; x = mvbench.all_reduce(array(\"f\", [3])); "
		 "os.write(1, f\"{mvbench.rank()} {x[0]}\\n\".encode()); " /* whole */
		 "mvbench.shutdown()' & done; wait; ls %s",
	    29500, 2, folder, folder);
	expect("0 6.0\n");
	expect("1 6.0\n");
	ck_assert_ptr_null(strstr(printed, "mvbench-"));
	run(1, FIND "r=0; " TORCHRUN " python3 -c 'import mvbench; mvbench.init()'", 29500, 4);
	expect("RANK=0 and WORLD_SIZE=4 are set, but this is no torchrun on one machine");
}

/* A library that needs one of Open MPI's, which is not there. */
TEST(import_without_mpi_names_the_package, 2)
{
	static const char *const how[] = {"python3 -c 'import mvbench'",
					  "luajit -e \"require 'mvbench'\""};
	if (!have("python3") || !have("luajit"))
		return;
	run(1,
	    FIND
	    "cd %s && cp $MVBENCH_HOME/runtime/lib/mvbench.py "
	    "$MVBENCH_HOME/runtime/lib/mvbench.lua . && cp $OLDPWD/mvbench_abi.* . && "
	    "echo 'int x;' >x.c && "
	    "gcc -shared -fPIC x.c -o libmpi-none.so && "
	    "gcc -shared -fPIC -Wl,--no-as-needed x.c -L. -lmpi-none -o libmvbench.so && "
	    "rm libmpi-none.so && LUA_PATH=\"$PWD/?.lua\" PYTHONPATH=$PWD LD_LIBRARY_PATH=$PWD %s",
	    folder, how[_i]);
	expect("libmpi-none.so: cannot open shared object file");
	expect("install Open MPI: apt-get install openmpi-bin");
}

TEST(process_without_a_launcher_starts_again)
{
	if (!have("python3"))
		return;
	run(0, FIND "python3 -c 'import mvbench\n"
		    "for _ in range(3):\n"
		    "    mvbench.init()\n"
		    "    t = mvbench.Table(2)\n"
		    "    t.add_start([1, 2])\n"
		    "    mvbench.shutdown()\n"
		    "    try: t.get()\n"
		    "    except mvbench.Error as e: print(e)'");
	ck_assert_str_eq(printed, "mvb_table_get after mvb_shutdown\n"
				  "mvb_table_get after mvb_shutdown\n"
				  "mvb_table_get after mvb_shutdown\n");
}

/* A child that multiprocessing forks is no worker. */
TEST(forked_child_is_refused, 3)
{
	static const char *const workers[] = {"1", "2", "4"};
	if (!have("python3"))
		return;
	run(0,
	    FIND MPIRUN "%s python3 -c 'import os, mvbench; from array import array\n"
			"mvbench.init()\n"
			"if os.fork() == 0:\n"
			"    for f in mvbench.barrier, mvbench.init, mvbench.shutdown:\n"
			"        try: f(); os._exit(2)\n"
			"        except mvbench.Error as e: assert \"forked child\" in str(e), e\n"
			"    os._exit(3)\n"
			"assert os.waitstatus_to_exitcode(os.wait()[1]) == 3\n"
			"x = mvbench.all_reduce(array(\"f\", [1]))\n"
			"assert x[0] == mvbench.size()\n"
			"mvbench.shutdown()'",
	    workers[_i]);
	ck_assert_str_eq(printed, "");
}

TEST(gradients_of_pytorch_equal_distributed_data_parallel, 2)
{
	static const char *const how[] = {"200", "4 8 wide"};
	const char *python = !have("python3") ? NULL : python_with("numpy, torch.distributed");
	if (!python)
		return;
	run(0, FIND MPIRUN "2 %s $MVBENCH_HOME/tests/lib/gradients.py %s", python, how[_i]);
	expect("losses differ by at most ");
}

/* In a fresh virtual environment, without a network, and from another folder. */
TEST(pip_installs_the_wheel)
{
	const char *python = !have("python3") ? NULL : python_with("venv, ensurepip");
	if (!python)
		return;
	run(0,
	    "unset PYTHONPATH; v=%s/venv; %s -m venv $v && MVBENCH_BUILD=$PWD $v/bin/pip "
	    "install --quiet --no-index --disable-pip-version-check $MVBENCH_HOME && cd / && "
	    "$v/bin/python -c 'import mvbench; mvbench.init(); t = mvbench.Table(2); "
	    "t.add([1, 2]); print(list(t.get()), mvbench.__file__)'",
	    folder, python);
	expect("[1.0, 2.0] ");
	expect("/venv/lib/python3");
	run(0,
	    "%s/venv/bin/python -c 'from importlib.metadata import distribution; "
	    "d = distribution(\"mvbench\"); print(d.metadata[\"License-Expression\"], "
	    "d.read_text(\"licenses/\" + d.metadata[\"License-File\"]))'",
	    folder);
	expect("MIT MIT License\n\nCopyright (c) 2026 the mvbench authors\n");
	run(0,
	    "%s/venv/bin/python -c 'from importlib.metadata import metadata, version; "
	    "import mvbench; m = metadata(\"mvbench\"); "
	    "assert mvbench.__version__ == version(\"mvbench\") == \"" MVB_VERSION "\"; "
	    "print(m[\"Requires-Python\"], bool(m[\"Summary\"]), "
	    "\"# libmvbench\" in m[\"Description\"])'",
	    folder);
	expect(">=3.8 True True\n");
	run(0,
	    "unset PYTHONPATH; MVBENCH_BUILD=$PWD %s/venv/bin/pip install --quiet --no-index "
	    "--disable-pip-version-check --force-reinstall -e $MVBENCH_HOME && cd / && "
	    "%s/venv/bin/python -c 'import mvbench; mvbench.init(); print(mvbench.__file__)'",
	    folder, folder);
	expect("runtime/lib/mvbench.py\n");
	run(0,
	    "cd $MVBENCH_HOME/runtime/lib && PYTHONDONTWRITEBYTECODE=1 %s -c 'import "
	    "mvbench_wheel; "
	    "print(mvbench_wheel.build_sdist(\"%s\"))' && cd %s && tar xzf mvbench-*.tar.gz && "
	    "cd mvbench-*/ && [ -e main.c ] && [ -e PKG-INFO ] && [ -e pyproject.toml ] && "
	    "[ ! -e build ] && [ ! -e .git ]",
	    python, folder, folder);
	expect("mvbench-" MVB_VERSION ".tar.gz\n");
	run(0,
	    "MVBENCH_BUILD=$PWD %s/venv/bin/pip install --quiet --no-index --force-reinstall "
	    "--disable-pip-version-check %s/mvbench-" MVB_VERSION ".tar.gz && cd / && "
	    "%s/venv/bin/python -c 'import mvbench; from importlib.metadata import files; "
	    "print(mvbench.__version__, sorted(f.name for f in files(\"mvbench\") if \"typed\" in "
	    "f.name or f.suffix == \".pyi\"))'",
	    folder, folder, folder);
	expect(MVB_VERSION " ['__init__.pyi', '__init__.pyi', 'py.typed']");
	run(1,
	    "MVBENCH_BUILD=%s/none %s/venv/bin/pip install --no-index $MVBENCH_HOME --no-deps "
	    "--disable-pip-version-check --force-reinstall",
	    folder, folder);
	expect("is missing: run make first");
}

CASE("recorded", .limit = 240, .set_up = small_data, .tear_down = folder_free);

/* Without pandas, and with it where it is installed. */
TEST(python_reads_results, 2)
{
	const char *python = _i == 0 ? (have("python3") ? "python3" : NULL) : python_with("pandas");
	if (!python)
		return;
	record_run("--workload=softmax --strategy=serial --epochs=2 --device=cpu");
	run(0,
	    FIND "%s -c 'import sys, mvbench\n"
		 "sys.modules.update({} if %d else {\"pandas\": None})\n"
		 "rows = mvbench.results(\"%s/run.db\", \"SELECT epoch, test_accuracy FROM epoch "
		 "WHERE epoch > ? ORDER BY epoch\", [0])\n"
		 "assert type(rows).__name__ == (\"DataFrame\" if %d else \"list\")\n"
		 "rows = rows if isinstance(rows, list) else rows.to_dict(\"records\")\n"
		 "print([(r[\"epoch\"], 0 < r[\"test_accuracy\"] <= 1) for r in rows])'",
	    python, _i, folder, _i);
	ck_assert_str_eq(printed, "[(1, True), (2, True)]\n");
	run(1, FIND "%s -c 'import mvbench; mvbench.results(\"%s/no.db\", \"SELECT 1\")'", python,
	    folder);
	expect("unable to open database file");
}

/* Its cells in order, as Jupyter would run them, with and without pandas. */
TEST(notebook_of_results_runs, 2)
{
	const char *python = _i == 0 ? (have("python3") ? "python3" : NULL) : python_with("pandas");
	if (!python)
		return;
	record_run("--workload=softmax --strategy=serial --epochs=2 --device=cpu");
	record_run("--workload=softmax --strategy=serial --epochs=2 --device=cpu --seed=2");
	record_run("--workload=softmax --strategy=serial --epochs=2 --device=cpu --lr=0.05");
	run(0,
	    FIND "MVBENCH_DB=%s/run.db %s -c 'import json, os, sys\n"
		 "sys.modules.update({} if %d else {\"pandas\": None})\n"
		 "page = json.load(open(os.environ[\"MVBENCH_HOME\"] + \"/plots/results.ipynb\"))\n"
		 "names = {}\n"
		 "for cell in page[\"cells\"]:\n"
		 "    if cell[\"cell_type\"] == \"code\":\n"
		 "        exec(\"\".join(cell[\"source\"]), names)\n"
		 "print(len(names[\"runs\"]), len(names[\"configurations\"]), "
		 "len(names[\"curves\"]), len(names[\"medians\"]))'",
	    folder, python, _i);
	/* epochs 0, 1 and 2 of two seeds of one configuration and of one seed of another, which has
	 * the same short name; their medians need pandas */
	expect(_i ? "3 2 9 6" : "3 2 9 9");
	/* what the page sets finds the binding, from any folder */
	run(0,
	    "build=$PWD; cd $MVBENCH_HOME && path=$(grep -o 'PYTHONPATH=[^ ]*' "
	    "plots/results.ipynb | head -1 | sed \"s,.PWD/build,$build,g; s,.PWD,$PWD,g\") && "
	    "cd / && env PYTHONDONTWRITEBYTECODE=1 \"$path\" %s -c 'import mvbench; "
	    "print(mvbench.backend())'",
	    python);
	expect("not started");
}

/* ---- Installed ------------------------------------------------------------------ */

CASE("python");

/* MAKEFLAGS would pass the options of this make. B is relative, as in the build itself: with
 * absolute names make does not find the recorded dependencies, and links programs again while they
 * run. */
TEST(installed_bindings_are_found)
{
	if (!have("luajit") || !have("python3"))
		return;
	run(0,
	    "unset MAKEFLAGS MFLAGS MAKELEVEL; f=%s; "
	    "b=$(realpath --relative-to=$MVBENCH_HOME .); cd $MVBENCH_HOME && "
	    "make -s B=$b install PREFIX=$f && make -s B=$b install DESTDIR=$f && "
	    "cd / && export LD_LIBRARY_PATH=$f/lib LUA_PATH=$f/share/lua/5.1/?.lua && "
	    "luajit -e \"require 'mvbench_layers'; require 'torchad_nn.datamodule'; require "
	    "'torchmpi'; print(require 'multiverso'.backend())\" && "
	    "PYTHONPATH=$(echo $f/lib/python3*/dist-packages) python3 -c 'import mvbench, "
	    "mvbench_layers; print(mvbench.backend())' && cd $f/usr/local && "
	    "ls share/lua/5.1/mvbench.lua lib/python3.*/dist-packages/mvbench.py && "
	    "env -u LUA_PATH luajit -e 'print(package.path)' | "
	    "grep -qF '/usr/local/share/lua/5.1/?.lua' && "
	    "env -u PYTHONPATH /usr/bin/python3 -c 'import site; print(*site.getsitepackages(), "
	    "sep=chr(10))' | grep -qx \"/usr/local/$(echo lib/python3.*/dist-packages)\"",
	    folder);
	expect("not started\nnot started\n");
}

/* ---- Memory --------------------------------------------------------------------- */

TEST(bindings_free_what_they_make, 4)
{
	static const struct {
		const char *workers, *program, *count;
	} how[] = {{"1", "leak.lua", "10000"},
		   {"1", "leak.py", "10000"},
		   {"2", "leak.lua", "1000"},
		   {"2", "leak.py", "1000"}};
	const char *interpreter = strstr(how[_i].program, ".lua") ? "luajit" : "python3";
	if (!have(interpreter))
		return;
	run(0, FIND MPIRUN "%s %s $MVBENCH_HOME/tests/lib/%s %s", how[_i].workers, interpreter,
	    how[_i].program, how[_i].count);
	ck_assert_str_eq(printed, "done\n");
}

/* ---- Programs that fail --------------------------------------------------------- */

/* A worker that ends with an error ends the others, too. */
#define ENDS_ALL \
	"2 sh -c 'echo $$ >>%s/pids; exec %s'; s=$?; [ $s != 124 ] || echo it hangs; " \
	"for p in $(cat %s/pids); do grep -s State /proc/$p/status | grep -v zombie && " \
	"echo $p is left; done; [ $s != 0 ]"

TEST(program_that_fails_leaves_no_process, 2)
{
	static const char *const program[] = {
		"luajit -e \"local m = require \\\"mvbench\\\"; m.init(); "
		"if m.is_master then error(\\\"no data\\\") end m.allReduce {1}\"",
		"python3 -c \"import array, mvbench; mvbench.init(); "
		"x = array.array(\\\"f\\\", [1]); "
		"mvbench.is_master() and exit(\\\"no data\\\"); mvbench.all_reduce(x)\"",
	};
	if (!have(_i == 0 ? "luajit" : "python3"))
		return;
	run(0, FIND MPIRUN ENDS_ALL, folder, program[_i], folder);
	expect("no data");
	ck_assert_msg(!strstr(printed, "is left") && !strstr(printed, "hangs"), "%s", printed);
}
