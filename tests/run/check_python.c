/*
 * check_python.c - workloads in Python files: the examples of workloads/python/, what a run
 * computes, records, repeats and refuses. Most tests need NumPy only; those of PyTorch are skipped
 * where it cannot be imported.
 */
#include "tests/fixture.h"
#include "tests/shell.h"
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *interpreter; /* of the test; NULL: skipped */

/* Runs a command in the folder, with mvbench in the path. */
#define DO(status, command, ...) \
	run(status, \
	    "b=$PWD; export PATH=\"$b:$PATH\" MVBENCH_PYTHON=%s MVBENCH_DATA=%s " \
	    "XDG_CACHE_HOME=%s/cache ASAN_OPTIONS=detect_leaks=0 " \
	    "e=$MVBENCH_HOME/workloads/python; " \
	    "cd %s; " command, \
	    interpreter, folder, folder, folder, ##__VA_ARGS__)

/* The query on the folder's database gives this. */
static void answers(const char *sql, const char *want)
{
	DO(0, "sqlite3 mvbench.db \"%s\"", sql);
	printed[strcspn(printed, "\n")] = '\0';
	ck_assert_msg(strcmp(printed, want) == 0, "%s: %s, not %s", sql, printed, want);
}

static bool lacks(const char *module)
{
	return lacks_program("sqlite3") || !(interpreter = python_with(module));
}

#define RUN  "mvbench run --epochs=2 "
#define FAST "--sim.platform=ethernet_10g --sim.step-time=2ms --platform=sim "
#define LAST "(SELECT max(epoch) FROM epoch)"

CASE("numpy", .limit = 120, .set_up = folder_new, .tear_down = folder_free);

TEST(python_model_learns_and_repeats)
{
	if (lacks("numpy"))
		return;
	DO(0, RUN "--workload=$e/logistic.py && " RUN "--workload=$e/logistic.py");
	answers("SELECT count(*), count(DISTINCT test_loss), count(DISTINCT model_hash) FROM run "
		"JOIN epoch ON id = run_id WHERE epoch = 2",
		"2|1|1");
	answers("SELECT min(test_accuracy) > 0.95, min(train_size), min(test_size), min(params) "
		"FROM run JOIN epoch ON id = run_id WHERE epoch = 2",
		"1|1000|200|9");
	answers("SELECT batch, lr FROM run WHERE id = 1", "20|0.5"); /* the recipe */
	answers("SELECT length(value) FROM run_option WHERE run_id = 1 AND name = 'source'", "64");
	answers("SELECT length(data_hash) FROM run WHERE id = 1", "16");
}

/* Gradient descent over the same rows in float64. */
TEST(python_model_equals_numpy)
{
	if (lacks("numpy"))
		return;
	DO(0, RUN "--workload=$e/logistic.py --batch=1000 --epochs=30");
	DO(0,
	   "sqlite3 mvbench.db 'SELECT test_loss FROM epoch WHERE epoch = 30' >loss; "
	   "PYTHONPATH=$e %s -c '\nimport logistic, numpy\n"
	   "(x, y), test = logistic.data()\nw, b = numpy.zeros(8), 0.0\n"
	   "for _ in range(30):\n"
	   "  d = (1 / (1 + numpy.exp(-(x @ w + b))) - y) / len(y)\n"
	   "  w, b = w - 0.5 * (x.T @ d), b - 0.5 * d.sum()\n"
	   "z = test[0] @ w + b\n"
	   "want = numpy.mean(numpy.logaddexp(0, z) - test[1] * z)\n"
	   "got = float(open(\"loss\").read())\n"
	   "assert abs(got - want) < 1e-6 * want, (got, want)'",
	   interpreter);
}

TEST(python_model_trains_with_each_strategy, 5)
{
	static const char *const how[] = {"allreduce", "easgd", "asgd", "periodic --sync-every=4",
					  "bsp"};
	if (lacks("numpy"))
		return;
	DO(0, RUN "--workload=$e/logistic.py --workers=2 --strategy=%s", how[_i]);
	answers("SELECT test_accuracy > 0.9 FROM epoch WHERE epoch = 2", "1");
}

/* Two workers whose gradients are averaged make the steps of one with their rows. */
TEST(python_workers_equal_one_worker)
{
	if (lacks("numpy"))
		return;
	DO(0, RUN "--workload=$e/logistic.py --workers=2 --strategy=allreduce --batch=500");
	DO(0, RUN "--workload=$e/logistic.py --batch=1000");
	answers("SELECT abs(min(test_loss) / max(test_loss) - 1) < 1e-6, count(*) FROM epoch WHERE "
		"epoch = 2",
		"1|2");
}

TEST(simulated_python_model_has_losses_of_the_real_one, 2)
{
	const char *how = _i ? "--strategy=periodic --sync-every=3" : "--strategy=allreduce";
	if (lacks("numpy"))
		return;
	DO(0, RUN "--workload=$e/logistic.py --workers=2 %s", how);
	DO(0, RUN FAST "--workload=$e/logistic.py --workers=2 %s", how);
	answers("SELECT count(*), count(DISTINCT test_loss), count(DISTINCT train_loss) FROM epoch "
		"WHERE epoch = 2",
		"2|1|1");
	/* 25 steps of 2 ms and the messages */
	answers("SELECT seconds BETWEEN 0.05 AND 0.06 FROM epoch WHERE epoch = 2 AND run_id = 2",
		"1");
}

TEST(python_model_takes_time_without_training)
{
	if (lacks("numpy"))
		return;
	DO(0, RUN FAST "--workload=$e/logistic.py --workers=4 --strategy=allreduce "
		       "--sim.train=false");
	answers("SELECT seconds BETWEEN 0.026 AND 0.03 FROM epoch WHERE epoch = 2", "1");
}

TEST(python_arguments_are_options)
{
	if (lacks("numpy"))
		return;
	DO(0, RUN "--workload=$e/logistic.py --logistic.width=3 --logistic.rows=400");
	answers("SELECT params, train_size FROM run", "4|400");
	DO(2, RUN "--workload=$e/logistic.py --logistic.width=many");
	expect("--logistic.width=many: give a whole number");
	DO(2, RUN "--workload=$e/logistic.py --logistic.widht=3");
	expect("did you mean --logistic.width");
	DO(0, "mvbench help $e/logistic.py");
	expect("argument of params()");
}

/* In a sweep a finished cell is not run again, unless the file or its data has changed. */
TEST(changed_python_file_is_another_cell)
{
	if (lacks("numpy"))
		return;
	folder_text("study.ini", "[all]\nworkload = ./mine.py\nepochs = 1\nlr = 0.1, 0.2\n");
	DO(0, "sed 's/from __future__.*//' $e/logistic.py >mine.py; mvbench sweep study.ini && "
	      "mvbench sweep study.ini");
	answers("SELECT count(*) FROM run", "2");
	DO(0, "sed -i 's/x.sum(1)/x.sum(1) - x[:, 0]/' mine.py; mvbench sweep study.ini");
	answers("SELECT count(*), count(DISTINCT data_hash) FROM run", "4|2");
	/* the data alone, in a file of their own */
	folder_text("study.ini", "[all]\nworkload = ./filed.py\nepochs = 1\n");
	DO(0,
	   "%s -c 'import numpy; numpy.save(\"x.npy\", numpy.ones((1200, 8), \"f4\"))'; "
	   "sed 's/x = rng.normal.*/x = np.load(\"x.npy\")/' $e/logistic.py >filed.py; "
	   "mvbench sweep study.ini && mvbench sweep study.ini",
	   interpreter);
	answers("SELECT count(*) FROM run WHERE workload = 'filed'", "1");
	DO(0,
	   "%s -c 'import numpy; numpy.save(\"x.npy\", numpy.zeros((1200, 8), \"f4\"))'; "
	   "mvbench sweep study.ini",
	   interpreter);
	answers("SELECT count(*), count(DISTINCT data_hash) FROM run WHERE workload = 'filed'",
		"2|2");
}

TEST(imported_python_file_is_a_part_of_the_source)
{
	if (lacks("numpy"))
		return;
	DO(0,
	   "mkdir own; echo 'rate = 1' >own/deep.py; touch own/__init__.py; "
	   "echo 'from own import deep' >near.py; "
	   "{ echo 'import near, os'; cat $e/logistic.py; } >mine.py; " RUN
	   "--workload=./mine.py && echo 'rate = 2' >own/deep.py && " RUN "--workload=./mine.py");
	answers("SELECT count(DISTINCT value) FROM run_option WHERE name = 'source'", "2");
	/* the texts that a run had are kept: no later change of a file concerns it */
	DO(0, "echo broken >near.py; s=$(sqlite3 mvbench.db \"SELECT value FROM run_option WHERE "
	      "name = 'source' AND run_id = 2\"); " RUN "--workload=mine --mine.source=$s");
	answers("SELECT count(DISTINCT test_loss) FROM epoch WHERE epoch = 2", "1");
}

#define SETS \
	"def data():\n  a = lambda n: (np.ones((n, 2), np.float32), np.ones(n, np.float32))\n" \
	"  return a(40), a(10)\n"
#define NUMBERS "import numpy as np\ndef params(): return np.zeros(2, np.float32)\n" SETS

TEST(python_file_is_refused, 9)
{
	static const struct {
		const char *text, *says;
	} row[] = {
		{"x = 1\n", "has neither model()"},
		{"def data(:\n", "SyntaxError"},
		{"import torchy\n", "No module named 'torchy'"},
		{"def params(n): pass\ndef gradient(): pass\ndef data(): pass\n",
		 "params(n): give the argument a default"},
		{NUMBERS, "it has neither model()"},
		{"import sys\nsys.exit(0)\n", "SystemExit"},
		{"import numpy as np\ndef params(): return np.zeros(2)\n"
		 "def gradient(p, b): pass\n" SETS,
		 "params(): 0 is float64, and mvbench trains float32"},
		{"import numpy as np\ndef params(): return np.zeros(2, np.float32)\n"
		 "def gradient(p, b): pass\ndef data(): return np.zeros(3)\n",
		 "data(): return two sets"},
		{"import os, numpy as np\ndef params(): os.kill(os.getpid(), 9)\n"
		 "def gradient(p, b): pass\n" SETS,
		 "its Python process was ended by signal 9"},
	};
	if (lacks("numpy"))
		return;
	folder_text("mine.py", row[_i].text);
	DO(2, RUN "--workload=./mine.py");
	expect(row[_i].says);
}

TEST(python_exception_ends_all_ranks, 3)
{
	static const char *const how[] = {"--strategy=serial", "--strategy=asgd --workers=2",
					  FAST "--strategy=allreduce --workers=2"};
	if (lacks("numpy"))
		return;
	folder_text("mine.py", NUMBERS "steps = []\ndef gradient(p, batch):\n  steps.append(1)\n"
				       "  if len(steps) > 9: raise ValueError('ten steps')\n"
				       "  return 1.0, np.ones(2)\n");
	DO(1, RUN "--epochs=9 --batch=4 --workload=./mine.py %s", how[_i]);
	expect("mine.py\", line 9, in gradient");
	expect("ValueError: ten steps");
	answers("SELECT status FROM run", "failed");
}

/* Also of a run that is killed: the second one, in its third second. */
TEST(python_process_ends_with_its_run, 2)
{
	if (lacks("numpy"))
		return;
	const char *how = _i ? "timeout -s KILL 3 " : "";
	DO(0,
	   "%s" RUN "--workload=$e/logistic.py --workers=2 --strategy=asgd --epochs=%s; i=0; "
	   "while pgrep -f 'serv[e] %s/cache' >/dev/null && [ $i -lt 100 ]; do sleep 0.1; "
	   "i=$((i+1)); done; [ $i -lt 100 ]",
	   how, _i ? "100000" : "2", folder);
}

TEST(missing_interpreter_is_named)
{
	if (lacks("numpy"))
		return;
	DO(2, RUN "--workload=$e/logistic.py --python=./none");
	expect("./none: No such file or directory; install python3");
}

TEST(database_starts_no_python)
{
	if (lacks("numpy"))
		return;
	folder_text("study.ini", "[all]\nworkload = ./mine.py\n");
	folder_text("mine.py", "open('started', 'w')\n");
	DO(2, "mvbench sweep --dry-run study.ini");
	expect("a file names this plug-in, and you have not");
	ck_assert_int_ne(access("started", F_OK), 0);
	DO(1, "test -e started");
}

TEST(python_checkpoint_continues)
{
	if (lacks("numpy"))
		return;
	DO(0, RUN "--workload=$e/logistic.py --epochs=1 --save=one.ck && " RUN
		  "--workload=$e/logistic.py --epochs=1 --init-from=one.ck");
	answers("SELECT count(DISTINCT test_loss) FROM epoch WHERE (run_id = 1 AND epoch = 1) OR "
		"(run_id = 2 AND epoch = 0)",
		"1");
}

CASE("torch", .limit = 240, .set_up = small_data, .tear_down = folder_free);

TEST(torch_example_learns, 2)
{
	static const char *const how[] = {"small_cnn.py --small_cnn.width=4",
					  "small_gpt.py --small_gpt.layers=1 --small_gpt.width=16"};
	if (lacks("torch, numpy"))
		return;
	DO(0, RUN "--workload=$e/%s --epochs=2 --workers=2 --strategy=allreduce", how[_i]);
	answers("SELECT (SELECT test_loss FROM epoch WHERE epoch = 2) < (SELECT test_loss FROM "
		"epoch WHERE epoch = 0), count(*) FROM run WHERE status = 'done'",
		"1|1");
}

/* Batch normalisation, dropout, two strategies: equal floats in both worlds. */
TEST(simulated_torch_model_has_losses_of_the_real_one, 2)
{
	const char *how = _i ? "--strategy=periodic --sync-every=3" : "--strategy=allreduce";
	if (lacks("torch, numpy"))
		return;
	DO(0,
	   RUN "--workload=$e/small_cnn.py --workers=2 %s && " RUN FAST
	       "--workload=$e/small_cnn.py --workers=2 %s",
	   how, how);
	answers("SELECT count(*), count(DISTINCT test_loss), count(DISTINCT train_loss), "
		"count(DISTINCT model_hash) FROM run JOIN epoch ON id = run_id WHERE epoch = 2",
		"2|1|1|1");
}

#define TORCH "import torch\nfrom torch import nn\n"
#define ROWS \
	"def data():\n  a = lambda n: (torch.arange(3.0 * n).reshape(n, 3) / n, " \
	"torch.ones(n))\n  return a(40), a(10)\n"

/* What a model may have, compared with the same steps of a plain loop of PyTorch. */
TEST(torch_steps_equal_a_plain_loop, 5)
{
	static const char *const body[] = {
		"nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 1))",
		"nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5), nn.Linear(5, 1))", "Tied()",
		"Frozen()", "Unused()"};
	if (lacks("torch, numpy"))
		return;
	char *text AUTOFREE =
		sentence(TORCH ROWS
			 "class Tied(nn.Module):\n"
			 "  def __init__(self):\n    super().__init__(); self.a = nn.Linear(3, 3); "
			 "self.b = nn.Linear(3, 3); self.b.weight = self.a.weight\n"
			 "  def forward(self, x): return self.b(torch.tanh(self.a(x))).sum(1)\n"
			 "class Frozen(Tied):\n"
			 "  def __init__(self):\n    super().__init__(); self.c = nn.Linear(3, 1); "
			 "self.c.requires_grad_(False)\n"
			 "  def forward(self, x): return self.c(torch.tanh(self.a(x)))\n"
			 "class Unused(Tied):\n"
			 "  def __init__(self):\n    super().__init__(); self.d = nn.Linear(3, 1)\n"
			 "def model(): return %s\n",
			 body[_i]);
	folder_text("mine.py", text);
	/* one step an epoch: the order of the rows does not matter, except to dropout */
	DO(0,
	   RUN "--workload=./mine.py --batch=40 --epochs=20 --lr=0.05 --momentum=0 "
	       "--strategy=serial && sqlite3 mvbench.db 'SELECT test_loss FROM epoch WHERE epoch = "
	       "20' >loss");
	if (_i == 1)
		return; /* its random numbers are mvbench's */
	DO(0,
	   "%s -c '\nimport mine, torch\ntorch.set_num_threads(1)\ntorch.manual_seed(1)\n"
	   "(x, y), (a, b) = mine.data()\nm = mine.model().train()\n"
	   "o = torch.optim.SGD([p for p in m.parameters() if p.requires_grad], lr=0.05)\n"
	   "f = lambda x, y: torch.nn.functional.mse_loss(m(x).flatten(), y)\n"
	   "for _ in range(20):\n  o.zero_grad(); f(x, y).backward(); o.step()\n"
	   "m.eval()\nwant = float(f(a, b))\n"
	   "got = float(open(\"loss\").read())\n"
	   "assert abs(got - want) < 1e-5 * abs(want), (got, want)'",
	   interpreter);
}

/* The forward pass takes a third of a step, the layers of the backward pass their share of flops:
 * an allreduce that starts early ends early. */
TEST(overlap_hides_messages_of_a_torch_model)
{
	if (lacks("torch, numpy"))
		return;
	DO(0, RUN FAST "--workload=$e/small_cnn.py --workers=2 --strategy=allreduce "
		       "--sim.platform=ethernet_1g --epochs=1 && " RUN FAST
		       "--workload=$e/small_cnn.py --workers=2 --strategy=allreduce "
		       "--sim.platform=ethernet_1g --epochs=1 --allreduce.overlap && " RUN
		       "--workload=$e/small_cnn.py --workers=2 --strategy=allreduce --epochs=1 "
		       "--allreduce.overlap");
	answers("SELECT a.seconds > b.seconds, count(DISTINCT c.test_loss) FROM epoch a JOIN epoch "
		"b JOIN epoch c WHERE a.run_id = 1 AND b.run_id = 2 AND c.run_id > 1 AND "
		"a.epoch = 1 "
		"AND b.epoch = 1 AND c.epoch = 1",
		"1|1");
}

/* Sixty steps on all 64 rows, half of them on each worker: in another order, so within rounding. */
TEST(torch_workers_equal_distributed_data_parallel)
{
	if (lacks("torch, numpy, torch.distributed"))
		return;
	folder_text("mine.py",
		    TORCH "recipe = {'lr': 0.1, 'momentum': 0.9, 'epochs': 60, 'batch': 32}\n"
			  "def data():\n  g = torch.Generator().manual_seed(1)\n"
			  "  x = torch.rand(128, 20, generator=g); y = (3 * x.sum(1)).long() % 5\n"
			  "  return (x[:64], y[:64]), (x[64:], y[64:])\n"
			  "def model():\n  return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), "
			  "nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 5))\n");
	DO(0,
	   "mvbench run --workload=./mine.py --workers=2 --strategy=allreduce && sqlite3 "
	   "mvbench.db 'SELECT test_loss FROM epoch WHERE epoch = 60' >loss && "
	   "%s $MVBENCH_HOME/tests/reference/torch_ddp.py mine.py 60 2 0.1 >want && "
	   "%s -c 'a, b = (float(open(f).read()) for f in (\"loss\", \"want\"))\n"
	   "assert abs(a - b) < 1e-6 * b, (a, b)'",
	   interpreter, interpreter);
}

TEST(torch_model_is_refused, 4)
{
	static const struct {
		const char *model, *more, *says;
	} row[] = {
		{"nn.Linear(3, 1).double()", "", "weight is float64, and mvbench trains float32"},
		{"nn.Sequential(nn.Linear(3, 1), nn.Embedding(3, 1, sparse=True))", "",
		 "1 has sparse gradients"},
		{"nn.Linear(3, 1)", "--workers=2 --strategy=model_parallel",
		 "has no linear layers that can be split"},
		{"3", "", "model(): return a torch.nn.Module, not int"}};
	if (lacks("torch, numpy"))
		return;
	char *text AUTOFREE = sentence(TORCH ROWS "def model(): return %s\n", row[_i].model);
	folder_text("mine.py", text);
	DO(2, RUN "--workload=./mine.py %s", row[_i].more);
	expect(row[_i].says);
}
