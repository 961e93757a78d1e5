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

/* logistic.py without its numbers of correct answers. */
#define COUNTS_NOTHING \
	"sed 's/, correct$//; s/_, value, correct/_, value, _/; s/return value, correct/return " \
	"value/' $e/logistic.py >mine.py; "

/* An accuracy that nothing counts is NULL, not 0, and cannot be a target; whole-number targets are
 * classes all the same. */
TEST(uncounted_answers_give_no_accuracy)
{
	if (lacks("numpy"))
		return;
	DO(0, COUNTS_NOTHING RUN "--workload=./mine.py");
	answers("SELECT count(*), count(test_accuracy), count(running_accuracy), "
		"min(test_loss) > 0 FROM epoch",
		"3|0|0|1");
	DO(2, RUN "--workload=./mine.py --target-accuracy=0.9");
	expect("--target-accuracy=0.9: mine has no accuracy; give --target-loss");
	DO(0, RUN
	   "--workload=./mine.py --workers=2 --strategy=allreduce --split=dirichlet:1 && mvbench "
	   "run --workload=$e/logistic.py --epochs=1 --target-accuracy=0.9");
}

/* Answers are counted, whatever type the targets have. */
TEST(counted_answers_of_float_targets_are_an_accuracy)
{
	if (lacks("numpy"))
		return;
	DO(0, "sed 's/astype(np.int64)/astype(np.float32)/' $e/logistic.py >mine.py; " RUN
	      "--workload=./mine.py");
	answers("SELECT test_accuracy > 0.95 FROM epoch WHERE epoch = 2", "1");
}

/* Metrics are means over the 200 test rows, whatever their batches are: of 64 and less, on one
 * worker or two. A batch without a value does not count. */
TEST(metrics_of_a_python_file_are_stored)
{
	if (lacks("numpy"))
		return;
	DO(0,
	   "{ cat $e/logistic.py; printf '\neval_batch = 64\n\ndef metrics(p, batch):\n"
	   "    value, correct = loss(p, batch)\n    n = len(batch[1])\n"
	   "    return {\"right\": correct / n, \"rows at once\": n, "
	   "\"full\": float(\"nan\") if n < 64 else value}\n'; } >mine.py; " RUN
	   "--workload=./mine.py && " RUN "--workload=./mine.py --workers=2 --strategy=allreduce "
	   "&& " RUN FAST "--workload=./mine.py --workers=2 --strategy=allreduce && mvbench show");
	expect("rows at once 53.92");
	answers("SELECT count(*), max(abs(value - test_accuracy)) < 1e-12, min(reports), "
		"max(reports) FROM epoch_value JOIN epoch USING (run_id, epoch) WHERE name = "
		"'right'",
		"9|1|200|200");
	answers("SELECT group_concat(DISTINCT round(value, 2)) FROM epoch_value WHERE name = "
		"'rows at once'",
		"61.76,53.92");
	answers("SELECT group_concat(DISTINCT reports) FROM epoch_value WHERE name = 'full'",
		"192,128");
	answers("SELECT count(*), count(DISTINCT value) FROM epoch_value WHERE run_id > 1 AND name "
		"= 'full'",
		"6|3");
}

/* One step whose gradient is 0: a decayed parameter loses lr times decay, which is 5 %. The loss is
 * their digits. */
TEST(parameters_are_spared_by_name, 3)
{
	static const struct {
		const char *how, *loss;
	} row[] = {
		{"--decay=all", "95.95"}, {"--decay=weights", "100.95"}, {"--decay=weights", ""}};
	if (lacks("numpy"))
		return;
	folder_text("mine.py",
		    "import numpy as np\n"
		    "def data():\n  a = lambda n: (np.ones((n, 2), 'f4'), np.ones(n, 'f4'))\n"
		    "  return a(40), a(10)\n"
		    "def params():\n  one = np.ones((2, 2), 'f4')\n"
		    "  return {'token.embed': 100 * one, 'weight': one}\n"
		    "def gradient(p, batch): return 0.0, {k: 0 * v for k, v in p.items()}\n"
		    "def loss(p, batch): return p['token.embed'].mean() + p['weight'].mean()\n"
		    "no_decay = ('embed',)\n");
	if (!*row[_i].loss) {
		DO(0, "echo 'no_decay = (\"norms\",)' >>mine.py");
		DO(2, RUN "--workload=./mine.py %s", row[_i].how);
		expect("no_decay: no parameter has 'norms' in its name: token.embed, weight");
		return;
	}
	DO(0,
	   RUN "--workload=./mine.py --epochs=1 --batch=40 --optimizer=sgd --momentum=0 --lr=0.1 "
	       "--weight-decay=0.5 %s",
	   row[_i].how);
	answers("SELECT round(test_loss, 3) FROM epoch WHERE epoch = 1", row[_i].loss);
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

/* Sums that last until the next step change nothing, in either world. */
TEST(overlap_leaves_a_python_model_the_same)
{
	if (lacks("numpy"))
		return;
	DO(0, "r='" RUN "--workload='$e/logistic.py' --workers=2 --strategy=allreduce'; o='"
	      "--allreduce.bucket=4 --allreduce.overlap='; $r && $r ${o}true && $r ${o}next && "
	      "$r ${o}next " FAST);
	answers("SELECT count(*), count(DISTINCT test_loss), count(DISTINCT model_hash) FROM run "
		"JOIN epoch ON id = run_id WHERE epoch = 2",
		"4|1|1");
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

/* Noise that is drawn when a row is read: a run repeats, and its simulation is equal. */
TEST(python_augmentation_repeats)
{
	if (lacks("numpy"))
		return;
	folder_text("mine.py",
		    "import base, numpy as np\nfrom base import params, gradient, loss, recipe\n"
		    "class Noisy:\n  def __init__(self, s): self.s = s\n"
		    "  def __len__(self): return len(self.s[0])\n  def __getitem__(self, i):\n"
		    "    x, y = (a[i] for a in self.s)\n"
		    "    return x + np.random.normal(size=8).astype('f4'), y\n"
		    "def data():\n  train, test = base.data()\n  return Noisy(train), test\n");
	DO(0, "cp $e/logistic.py base.py; r='" RUN
	      "--workers=2 --strategy=periodic --sync-every=3 --workload='; $r./mine.py && "
	      "$r./mine.py && $r./mine.py " FAST "&& $r./base.py");
	answers("SELECT workload, count(*), count(DISTINCT test_loss), count(DISTINCT train_loss), "
		"count(DISTINCT running_loss) FROM run JOIN epoch ON id = run_id WHERE epoch = 2 "
		"AND workload = 'mine'",
		"mine|3|1|1|1");
	answers("SELECT count(DISTINCT test_loss) FROM epoch WHERE epoch = 2", "2");
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
	DO(0, "{ cat $e/logistic.py; echo '# other text'; } >v1.2.py; mvbench help ./v1.2.py");
	expect("--v1_2.width");
}

TEST(python_file_with_the_name_of_a_built_in_model_is_told_how_to_change_it)
{
	if (lacks("numpy"))
		return;
	DO(2, "cp $e/logistic.py mlp.py; " RUN "--workload=mlp.py");
	expect("give yours another name (a line name = \"my_mlp\")");
	DO(0, "echo 'name = \"my_mlp\"' >>mlp.py; " RUN "--workload=mlp.py --my_mlp.rows=400");
	answers("SELECT workload, train_size FROM run", "my_mlp|400");
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

/* The rows of a data set are given one by one. Those that differ when they are read again have no
 * hash. */
TEST(changed_rows_of_a_python_data_set_are_another_cell)
{
	if (lacks("numpy"))
		return;
	folder_text("study.ini", "[all]\nworkload = ./mine.py\nepochs = 1\n");
	folder_text(
		"mine.py",
		"import numpy as np\nfrom base import params, gradient, loss, recipe\nclass Rows:\n"
		"  def __init__(self, x): self.x = x\n  def __len__(self): return len(self.x)\n"
		"  def __getitem__(self, i): return self.x[i], int(self.x[i].sum() > 0)\n"
		"def data():\n  x = np.load('x.npy')\n  return Rows(x[:1000]), Rows(x[1000:])\n");
	DO(0,
	   "cp $e/logistic.py base.py; %s -c 'import numpy; numpy.save(\"x.npy\", "
	   "numpy.random.default_rng(1).normal(size=(1200, 8)).astype(\"f4\"))'; mvbench sweep "
	   "study.ini && mvbench sweep study.ini",
	   interpreter);
	answers("SELECT count(*), min(length(data_hash)) FROM run", "1|16");
	DO(0,
	   "%s -c 'import numpy; numpy.save(\"x.npy\", -numpy.load(\"x.npy\"))'; mvbench sweep "
	   "study.ini",
	   interpreter);
	answers("SELECT count(*), count(DISTINCT data_hash) FROM run", "2|2");
	DO(0,
	   "sed -i 's/return self.x.i., /return self.x[i] + np.random.default_rng().random(), /' "
	   "mine.py; mvbench sweep study.ini");
	answers("SELECT count(*), sum(coalesce(data_hash, '') = '') FROM run", "3|1");
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
	DO(0, "mvbench show 1 --source=mine.py | cmp - mine.py && mvbench show 1 "
	      "--source=own/deep.py");
	expect("rate = 1");
	DO(2, "{ echo 'import importlib'; echo 'deep = importlib.import_module(\"own.deep\")'; cat "
	      "$e/logistic.py; } >unseen.py; " RUN "--workload=./unseen.py");
	expect(" is imported in a way that mvbench does not see: write its import on a line of "
	       "its own");
	/* the texts that a run had are kept: no later change of a file concerns it */
	DO(0, "echo broken >near.py; s=$(sqlite3 mvbench.db \"SELECT value FROM run_option WHERE "
	      "name = 'source' AND run_id = 2\"); " RUN "--workload=mine --mine.source=$s");
	answers("SELECT count(DISTINCT test_loss) FROM epoch WHERE epoch = 2", "1");
}

/* A built-in model with the sets of a Python file, and with the same arrays. */
TEST(python_file_gives_rows_to_built_in_models)
{
	if (lacks("numpy"))
		return;
	folder_text("near.py", "import numpy as np\ndef rows(r, n): return r.normal(size=(n, "
			       "4)).astype('f4')\n");
	folder_text("mine.py",
		    "import near, numpy as np\ndef data(n: int = 200, seed=1):\n"
		    "  r = np.random.default_rng(seed)\n  x = near.rows(r, n + 50)\n"
		    "  y = (x.sum(1) > 0).astype(int)\n  return (x[:n], y[:n]), (x[n:], y[n:])\n");
	DO(0,
	   "%s -c 'import mine, numpy as np; (a, b), (c, d) = mine.data(); np.savez(\"a.npz\", "
	   "x_train=a, y_train=b, x_test=c, y_test=d)'; for d in ./mine.py a.npz; do " RUN
	   "--workload=mlp --data-dir=$d --workers=2 --strategy=allreduce --lr=0.1; done",
	   interpreter);
	answers("SELECT count(DISTINCT data_hash), count(DISTINCT model_hash), "
		"min(length(data_hash)), min(train_size), min(test_accuracy) > 0.8 FROM run JOIN "
		"epoch ON id = run_id WHERE "
		"epoch = 2",
		"1|1|16|200|1");
	/* data of a database start no Python */
	folder_text("study.ini",
		    "[all]\nworkload = softmax\ndata-dir = ./mine.py ; rows\nepochs = 1\n");
	DO(2, "mvbench sweep --dry-run study.ini");
	expect("a file names it, and you have not");
	DO(0, "mvbench sweep study.ini && sed -i 's/n + 50/n + 60/' mine.py && mvbench sweep "
	      "study.ini");
	answers("SELECT count(*), count(DISTINCT data_hash) FROM run WHERE workload = 'softmax'",
		"2|2");
	folder_text("mine.py", "def data(): raise ValueError('no rows')\n");
	DO(2, RUN "--workload=mlp --data-dir=./mine.py");
	expect("--data-dir=./mine.py: ");
	expect("ValueError: no rows");
	folder_text("mine.py", "def data(): return 1, 2\n");
	DO(2, RUN "--workload=mlp --data-dir=./mine.py");
	expect("data(): return (rows, labels)");
}

TEST(python_file_gives_images_to_built_in_models, 3)
{
	static const char *const how[] = {"tanh_mlp --tanh_mlp.hidden=8", "lenet",
					  "resnet --resnet.depth=20"};
	if (lacks("numpy"))
		return;
	folder_text("mine.py",
		    "import numpy as np\ndef data():\n  r = np.random.default_rng(1)\n"
		    "  x = r.integers(0, 256, (250, 8, 8, 3)).astype('u1')\n"
		    "  y = np.arange(250) & 1\n  return (x[:200], y[:200]), (x[200:], y[200:])\n");
	DO(0,
	   "mvbench run --workload=%s --data-dir=./mine.py --epochs=1 --batch=50 --lr=1e-3 "
	   "--strategy=serial",
	   how[_i]);
	answers("SELECT train_size, test_size, length(data_hash) FROM run", "200|50|16");
	if (_i != 2)
		return;
	DO(2, "sed -i 's/8, 8, 3/8, 6, 4/' mine.py; " RUN "--workload=resnet --data-dir=./mine.py");
	expect("resnet: images of 8 x 6 are not square");
	DO(2, "sed -i 's/8, 6, 4/192/' mine.py; " RUN "--workload=resnet --data-dir=./mine.py");
	expect("resnet: the rows of this data set are not images");
}

/* A net that writes the rows of each of its 60 steps; the rule of the paper in float64. */
TEST(python_model_follows_rules_of_papers, 4)
{
	static const struct {
		const char *rule, *how, *within;
	} row[] = {{"allreduce", "allreduce", "1e-6"},
		   {"fedavg", "periodic --sync-every=5", "1e-6"},
		   /* larger steps amplify rounding; 60 of them differed by 1.1e-6 */
		   {"diloco",
		    "periodic --sync-every=5 --periodic.outer=nesterov --periodic.outer-lr=0.7 "
		    "--periodic.outer-momentum=0.9",
		    "1e-5"},
		   {"dilocox",
		    "periodic --sync-every=5 --periodic.delay=5 --periodic.outer=nesterov "
		    "--periodic.outer-lr=0.7 --periodic.outer-momentum=0.9",
		    "1e-5"}};
	if (lacks("numpy"))
		return;
	folder_text(
		"mine.py",
		"import os, numpy as np\n"
		"def data():\n  r = np.random.default_rng(1)\n"
		"  x = r.normal(size=(160, 6)).astype('f4')\n"
		"  y = np.tanh(x @ r.normal(size=6)).astype('f4')\n  i = np.arange(160)\n"
		"  return (i[:120], x[:120], y[:120]), (i[120:], x[120:], y[120:])\n"
		"def params():\n  r = np.random.default_rng(2)\n"
		"  return {'a': r.normal(0, 0.4, (6, 8)).astype('f4'), 'b': np.zeros(8, 'f4'),\n"
		"          'c': r.normal(0, 0.4, 8).astype('f4')}\n"
		"def step(p, x, y):\n  h = np.tanh(x @ p['a'] + p['b']); e = h @ p['c'] - y\n"
		"  d = np.outer(2 * e / len(e), p['c']) * (1 - h * h)\n"
		"  return (e * e).mean(), {'a': x.T @ d, 'b': d.sum(0), 'c': 2 * h.T @ e / "
		"len(e)}\n"
		"def loss(p, batch): return step(p, *batch[1:])[0]\n"
		"def gradient(p, batch):\n  with open(f'rows.{os.getpid()}', 'a') as f:\n"
		"    print(*batch[0], file=f)\n  return step(p, *batch[1:])\n");
	DO(0,
	   "mvbench run --workload=./mine.py --workers=2 --batch=6 --epochs=6 --optimizer=adamw "
	   "--lr=0.01 --weight-decay=0.1 --strategy=%s && sqlite3 mvbench.db 'SELECT test_loss "
	   "FROM epoch WHERE epoch > 0 ORDER BY epoch' >got && PYTHONPATH=. %s "
	   "$MVBENCH_HOME/tests/reference/local_rules.py %s 5 0.01 0.1 >want && %s -c '\n"
	   "a, b = ([float(x) for x in open(f)] for f in (\"got\", \"want\"))\n"
	   "assert len(a) == len(b) == 6 and a[5] < a[0], (a, b)\n"
	   "assert all(abs(x - y) < %s * y for x, y in zip(a, b)), (a, b)'",
	   row[_i].how, interpreter, row[_i].rule, interpreter, row[_i].within);
}

/* The second process of this file ends in its third epoch; the third one continues. */
#define STOPS \
	"import os\ncount = []\ndef stops():\n  count.append(1)\n" \
	"  if os.path.exists('stop') and len(count) == 70: raise KeyboardInterrupt\n"

TEST(interrupted_python_model_continues, 2)
{
	const char *how = _i ? "--strategy=easgd --sync-every=4 --seed=1"
			     : "--strategy=allreduce --momentum=0.9";
	if (lacks("numpy"))
		return;
	folder_text("stops.py", STOPS);
	DO(0,
	   "{ echo 'from stops import stops'; sed 's/    x, y, z, loss/    stops(); x, y, z, "
	   "loss/' $e/logistic.py; } >mine.py; r='mvbench run --workload=./mine.py --workers=2 "
	   "--epochs=5 %s'; $r && touch stop && ! $r --save=k.ck && rm stop && $r --save=k.ck",
	   how);
	answers("SELECT count(*), group_concat(DISTINCT status) FROM run", "2|done");
	if (_i == 0) /* the order of arrival decides nothing */
		answers("SELECT count(DISTINCT model_hash) FROM run", "1");
	answers("SELECT count(*), max(epoch) FROM epoch WHERE run_id = 2", "6|5");
}

#define SETS \
	"def data():\n  a = lambda n: (np.ones((n, 2), np.float32), np.ones(n, np.float32))\n" \
	"  return a(40), a(10)\n"
#define NUMBERS "import numpy as np\ndef params(): return np.zeros(2, np.float32)\n" SETS

TEST(python_file_is_refused, 15)
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
		{NUMBERS "def gradient(p, b): pass\ndef accuracy(p, b): pass\n",
		 "accuracy() belongs to a model()"},
		{NUMBERS "def gradient(p, b): pass\neval_batch = 0.5\n",
		 "eval_batch = 0.5: give the most rows"},
		{NUMBERS "def gradient(p, b): pass\nname = 'My net'\n",
		 "name = 'My net': give small letters, digits and _"},
		{"def params(between: str = '\\t'): pass\ndef gradient(): pass\ndef data(): pass\n",
		 "between: '\\t' has a tab or a newline"},
		{"import sys\nsys.exit(0)\n", "SystemExit"},
		{"import numpy as np\ndef params(): return np.zeros(2)\n"
		 "def gradient(p, b): pass\n" SETS,
		 "params(): 0 is float64, and mvbench trains float32"},
		{"import numpy as np\ndef params(): return np.zeros(2, np.float32)\n"
		 "def gradient(p, b): pass\ndef data(): return np.zeros(3)\n",
		 "data(): return two sets"},
		{"import numpy as np\ndef params(): return np.zeros(2, np.float32)\n"
		 "def gradient(p, b): pass\ndef data(): return [], [1]\n",
		 "data(): both sets need at least one row"},
		{"def params(): pass\ndef gradient(p, b): pass\nclass Loader: dataset = 1\n"
		 "def data(): return Loader(), Loader()\n",
		 "whose rows are taken by number; give the data set of the DataLoader"},
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
				       "  if len(steps) > 9: open('raised', 'w'); raise "
				       "ValueError('ten steps')\n"
				       "  return 1.0, np.ones(2)\n");
	DO(1, RUN "--epochs=9 --batch=4 --workload=./mine.py %s", how[_i]);
	expect("mine.py\", line 9, in gradient");
	expect("ValueError: ten steps");
	/* it takes 0.2 s; a rank that waits for another would take 10 s and more */
	DO(0, "%s -c 'import os, time; assert time.time() - os.stat(\"raised\").st_mtime < 5'",
	   interpreter);
	answers("SELECT status FROM run", "failed");
}

/* The folder of the file contains an interpreter and its packages, as a home folder may: they are
 * no files of the user. The last lines of the traceback begin with the user's line. */
TEST(interpreter_below_the_file_is_not_the_user_s)
{
	if (lacks("numpy"))
		return;
	folder_text("deep.py", "def f(): g()\ndef g(): h()\ndef h(): raise ValueError('deep')\n");
	DO(0,
	   "mkdir -p home/site-packages; mv deep.py home/site-packages; ln -s $(%s -c 'import os; "
	   "print(os.path.dirname(os.path.dirname(os.__file__)))') home/lib; { echo 'import deep'; "
	   "cat $e/logistic.py; } >mine.py; export PYTHONHOME=$PWD/home "
	   "PYTHONPATH=$PWD/home/site-packages:$(%s -c 'import numpy, os; "
	   "print(os.path.dirname(os.path.dirname(numpy.__file__)))'); " RUN
	   "--workload=./mine.py && sed -i 's/^    return value/    deep.f()/' mine.py && ! " RUN
	   "--workload=./mine.py",
	   interpreter, interpreter);
	expect("mine.py\", line 34, in loss");
	expect("ValueError: deep");
}

/* The gradient, which is 0, writes to the parameters: without a copy they are those of the run. A
 * GPU has parameters of its own, and Python gets a copy of them. */
TEST(python_parameters_are_those_of_the_worker, 2)
{
	if (lacks("numpy"))
		return;
	if (_i && !have_gpu()) {
		skipped("there is no nvcc, so the emulated GPU was not built");
		return;
	}
	folder_text("mine.py", NUMBERS "def gradient(p, batch):\n  p[:] = 3\n"
				       "  return 1.0, np.zeros(2)\n"
				       "def loss(p, batch): return 1.0 + p.mean()\n");
	DO(0, "MVBENCH_CUDA=$b/%s " RUN "--workload=./mine.py --device=%s", gpu_module(),
	   _i ? "cuda" : "cpu");
	answers("SELECT test_loss FROM epoch WHERE epoch = 2", _i ? "1.0" : "4.0");
}

TEST(python_model_on_a_gpu_equals_the_cpu)
{
	if (lacks("numpy"))
		return;
	if (!have_gpu()) {
		skipped("there is no nvcc, so the emulated GPU was not built");
		return;
	}
	DO(0,
	   "export MVBENCH_CUDA=$b/%s; for d in cpu cuda; do " RUN "--workload=$e/logistic.py "
	   "--device=$d; done",
	   gpu_module());
	answers("SELECT count(*), max(test_loss) / min(test_loss) - 1 < 1e-5, count(DISTINCT "
		"test_accuracy) FROM epoch WHERE epoch = 2",
		"2|1|1");
}

/* Its gradient is computed on the host: a GPU would only add copies. */
TEST(python_model_takes_no_gpu_by_itself)
{
	if (lacks("numpy"))
		return;
	if (!have_gpu()) {
		skipped("there is no nvcc, so the emulated GPU was not built");
		return;
	}
	DO(0,
	   "export MVBENCH_CUDA=$b/%s; for w in $e/logistic.py perceptron; do " RUN
	   "--workload=$w --train-rows=100; done",
	   gpu_module());
	answers("SELECT count(*), sum((workload = 'logistic') = (device = 'cpu')) FROM run", "2|2");
	DO(2, "MVBENCH_CUDA=$b/%s " RUN "--workload=$e/logistic.py --device=cuda --precision=bf16",
	   gpu_module());
	expect("--precision=bf16: --workload=");
	expect("computes its gradient on the host");
}

/* A worker that trains alone is a fork of the process that has started Python. */
TEST(python_step_may_take_long, 3)
{
	static const char *const how[] = {"--strategy=serial", "--strategy=allreduce --workers=2",
					  FAST "--strategy=allreduce --workers=2"};
	if (lacks("numpy"))
		return;
	folder_text("mine.py", "import time\n" NUMBERS
			       "def gradient(p, batch):\n  time.sleep(0.3)\n  return 1.0, "
			       "np.ones(2)\n");
	DO(0, "mvbench run --epochs=1 --batch=40 --workload=./mine.py %s", how[_i]);
}

TEST(killed_python_process_ends_the_run, 2)
{
	const char *how = _i ? "--strategy=asgd --workers=2" : "--strategy=serial";
	if (lacks("numpy"))
		return;
	folder_text("mine.py",
		    "import os\n" NUMBERS "steps = []\ndef gradient(p, batch):\n  steps.append(1)\n"
		    "  if len(steps) > 9: os.kill(os.getpid(), 9)\n"
		    "  return 1.0, np.ones(2)\n");
	DO(1, RUN "--epochs=9 --batch=4 --workload=./mine.py %s", how);
	expect(_i ? "its Python process was ended by signal 9" : "its Python process has ended");
	answers("SELECT status FROM run", "failed");
}

/* Trials may have other data than the file's cell. They are compared by loss if there is no
 * accuracy. */
TEST(options_of_a_python_file_are_tuned, 2)
{
	if (lacks("numpy"))
		return;
	folder_text("study.ini", "[all]\nworkload = ./mine.py\nepochs = 1\nstrategy = allreduce\n"
				 "workers = 2\n[search]\nmine.width = 4, 8\nlr = 0.1..1 log\n");
	DO(0, "%s mvbench tune study.ini --budget=4 --seeds=1",
	   _i ? COUNTS_NOTHING : "cp $e/logistic.py mine.py;");
	answers("SELECT count(*), count(DISTINCT data_hash), count(DISTINCT params), "
		"group_concat(DISTINCT status) FROM run",
		"6|2|2|done");
	answers("SELECT objective FROM study", _i ? "loss" : "accuracy");
}

TEST(python_model_is_calibrated_and_validated)
{
	if (lacks("numpy"))
		return;
	folder_text("study.ini", "[all]\nworkload = ./mine.py\nepochs = 1\nworkers = 2\n"
				 "strategy = allreduce\n");
	DO(0, "cp $e/logistic.py mine.py; mvbench calibrate --workload=./mine.py --seconds=50ms "
	      "--repetitions=1 --counts=1,2 && mvbench run --workload=./mine.py --workers=2 "
	      "--strategy=easgd --epochs=1 --platform=sim");
	answers("SELECT count(*) FROM calibration WHERE workload = 'mine'", "2");
	answers("SELECT seconds > 0 FROM epoch WHERE epoch = 1", "1");
	DO(0, "mvbench validate study.ini --repetitions=1 --calibrate=false --threshold-median=1e5 "
	      "--threshold-p90=1e5 --threshold-comm-median=1e5 --threshold-comm-p90=1e5");
	answers("SELECT count(DISTINCT test_loss), count(*) FROM run JOIN epoch ON id = run_id "
		"WHERE label = 'validate' AND epoch = 1",
		"1|2");
}

/* Two layers of 30,000 parameters, and steps of 10 ms. */
#define TWO_ARRAYS \
	"import time, numpy as np\nn = 30000\n" \
	"def data(): return np.ones((40, 1), 'f4'), np.ones((10, 1), 'f4')\n" \
	"def params(): return [np.zeros(n, 'f4'), np.zeros(n, 'f4')]\n" \
	"def gradient(p, batch):\n  time.sleep(0.01)\n  return 1.0, [np.ones(n), np.ones(n)]\n"

/* NumPy gives all gradients at the end of a step. A calibration measures that, and a simulation
 * then hides no message behind a layer. */
TEST(calibrated_layers_of_a_numpy_model_hide_nothing)
{
	if (lacks("numpy"))
		return;
	folder_text("mine.py", TWO_ARRAYS);
	DO(0, "mvbench calibrate --workload=./mine.py --batch=10 --seconds=50ms --repetitions=1 "
	      "--counts=1 && for step in '' --sim.step-time=2ms; do for more in '' "
	      "--allreduce.overlap; do mvbench run --workload=./mine.py --batch=10 --epochs=1 "
	      "--workers=2 --strategy=allreduce --allreduce.bucket=1 --platform=sim "
	      "--sim.platform=ethernet_1g $step $more; done; done");
	answers("SELECT group_concat(x), group_concat(value > 0) FROM (SELECT x, value FROM "
		"calibration_point WHERE name = 'layer' ORDER BY x)",
		"0.0,1.0,2.0|0,0,1");
	/* a given step is divided by parameters: the last layer is sent early */
	answers("SELECT b.seconds > 0.999 * a.seconds, d.seconds < 0.99 * c.seconds FROM epoch a "
		"JOIN epoch b USING (epoch) JOIN epoch c USING (epoch) JOIN epoch d USING (epoch) "
		"WHERE epoch = 1 AND a.run_id = 1 AND b.run_id = 2 AND c.run_id = 3 AND d.run_id = "
		"4",
		"1|1");
}

/* With --allreduce.overlap=next, too, its forward pass waits for all layers, as the real one does.
 */
TEST(simulated_python_model_needs_all_layers)
{
	if (lacks("numpy"))
		return;
	folder_text("mine.py", TWO_ARRAYS);
	DO(0, "for more in true next; do " RUN "--workload=./mine.py --batch=10 --workers=2 "
	      "--strategy=allreduce --allreduce.bucket=1 --platform=sim --sim.step-time=2ms "
	      "--sim.platform=ethernet_1g --allreduce.overlap=$more; done");
	answers("SELECT b.seconds BETWEEN 0.999 * a.seconds AND 1.001 * a.seconds FROM epoch a "
		"JOIN epoch b USING (epoch) WHERE epoch = 2 AND a.run_id = 1 AND b.run_id = 2",
		"1");
}

TEST(python_model_passes_the_gate)
{
	if (lacks("numpy"))
		return;
	folder_text("study.ini", "[all]\nworkload = ./mine.py\nepochs = 1\nworkers = 2\n"
				 "strategy = allreduce\nseed = 1..3\n");
	DO(0, "cp $e/logistic.py mine.py; mvbench sweep study.ini && mvbench check --save=main && "
	      "mvbench check --against=main && mvbench report --out=r.html && mvbench plot "
	      "accuracy_time --out=a.svg && grep -q mine r.html && grep -q '<svg' a.svg");
	answers("SELECT count(DISTINCT cell), count(*) FROM baseline", "1|3");
}

TEST(spread_of_a_python_model_is_split)
{
	if (lacks("numpy"))
		return;
	DO(0, "mvbench run --epochs=1 " FAST "--workload=$e/logistic.py --workers=2 "
	      "--strategy=asgd && mvbench spread 1 --repeats=2");
	answers("SELECT count(*), count(DISTINCT test_loss) > 1 FROM run JOIN epoch ON id = run_id "
		"WHERE epoch = 1",
		"5|1");
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

/* Its place is taken by a module that does what a missing one does. */
TEST(missing_torch_is_named)
{
	if (lacks("numpy"))
		return;
	folder_text("mine.py", "import torch\ndef model(): pass\ndef data(): pass\n");
	DO(2, "mkdir none; echo \"raise ModuleNotFoundError('no', name='torch')\" >none/torch.py; "
	      "PYTHONPATH=$PWD/none " RUN "--workload=./mine.py");
	expect(" has no torch: install it there (");
	expect(" -m pip install torch), or give an interpreter that has it with --python=PATH");
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

/* The interpreter leaves a file. A check that has to read the rows again asks for the file. */
TEST(data_that_a_row_names_start_no_python)
{
	static const char *const reads[] = {
		"show 1",
		"compare 1 2",
		"table",
		"history",
		"export --out=e",
		"report --out=r.html",
		"import mvbench.db --db=other.db",
		"check --against=b --rerun=never || [ $? = 1 ]",
		"check --import=b.jsonl",
	};
	if (lacks("numpy"))
		return;
	folder_text("mine.py",
		    "import numpy as np\ndef data():\n"
		    "  x = np.random.default_rng(1).normal(size=(250, 4)).astype('f4')\n"
		    "  y = (x.sum(1) > 0).astype(int)\n  return (x[:200], y[:200]), (x[200:], "
		    "y[200:])\n");
	folder_text("spy.sh", "#!/bin/sh\ntouch started\nexec $REAL_PYTHON \"$@\"\n");
	DO(0, "chmod +x spy.sh; for s in 1 2 3; do mvbench run --epochs=1 --workload=softmax "
	      "--strategy=serial --data-dir=./mine.py --seed=$s; done; mvbench check --save=b && "
	      "mvbench check --against=b --export=b.jsonl");
	answers("SELECT count(DISTINCT data_dir || data_hash) FROM run WHERE data_dir LIKE '%.py'",
		"1");
#define SPIED "export REAL_PYTHON=$MVBENCH_PYTHON MVBENCH_PYTHON=./spy.sh; "
	for (size_t i = 0; i < COUNT(reads); i++)
		DO(0, SPIED "mvbench %s && test ! -e started", reads[i]);
	DO(2, SPIED "mvbench check --against=b --rerun=always");
	expect("--data-dir=./mine.py: a file names it, and you have not: mvbench runs only Python "
	       "files that you type. Give --data-dir=./mine.py");
	DO(1, "test -e started");
	/* the test can fail: data that are typed start it */
	DO(0, SPIED "mvbench run --epochs=1 --workload=softmax --data-dir=./mine.py && test -e "
		    "started");
#undef SPIED
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

/* Its Python is one file, and its job file names that. */
TEST(page_of_python_workloads_is_right)
{
	if (lacks("torch, numpy"))
		return;
	DO(0, "for k in python ini; do sed -n '/^```'$k'/,/^```$/p' $e/README.md | grep -v '^```' "
	      ">mine.$k; done; mv mine.python mine.py; mvbench run --workload=./mine.py --epochs=1 "
	      "--mine.width=8 && mvbench sweep mine.ini");
	answers("SELECT count(*), count(DISTINCT strategy) > 3, group_concat(DISTINCT status) FROM "
		"run",
		"5|1|done");
	answers("SELECT min(value) > 0 AND max(value) < 1, count(*) FROM epoch_value WHERE name = "
		"'chance of the answer'",
		"1|18"); /* 2 epochs of the run and 4 of each cell, with the one before training */
}

/* Batch normalisation, dropout, two strategies: equal floats in both worlds. */
TEST(simulated_torch_model_has_losses_of_the_real_one, 4)
{
	static const char *const each[] = {
		"--strategy=allreduce", "--strategy=periodic --sync-every=3",
		"--strategy=periodic --sync-every=3 --norm-statistics=recompute",
		"--strategy=periodic --sync-every=3 --norm-statistics=first"};
	const char *how = each[_i];
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

/* A worker's buffer has the mean of its last rows, which the first rank writes down, and is the
 * test loss. A worker has a half of the rows 0 to 39. */
TEST(evaluated_buffers_are_averaged_or_of_the_first_worker, 2)
{
	if (lacks("torch, numpy"))
		return;
	folder_text(
		"mine.py",
		"import os, torch\nfrom torch import nn\n"
		"def data():\n  a = lambda n: (torch.arange(1.0 * n), torch.ones(n))\n"
		"  return a(40), a(10)\n"
		"class M(nn.Module):\n  def __init__(self):\n    super().__init__()\n"
		"    self.a = nn.Linear(1, 1); self.register_buffer('last', torch.tensor(9.0))\n"
		"def model(): return M()\n"
		"def loss(m, b):\n  if m.training:\n    m.last.fill_(b[0].mean())\n"
		"    if os.environ.get('OMPI_COMM_WORLD_RANK') == '0':\n"
		"      print(float(m.last), file=open('first', 'w'))\n"
		"  return m.last + 0 * m.a.weight.sum()\n");
	DO(0,
	   RUN "--workload=./mine.py --batch=20 --epochs=1 --workers=2 --strategy=allreduce "
	       "--norm-statistics=%s",
	   _i ? "first" : "average");
	DO(0, "cat first");
	const double first = strtod(printed, NULL), want = _i ? first : 19.5;
	ck_assert_msg(first > 0 && first != 19.5, "%s", printed);
	DO(0, "sqlite3 mvbench.db 'SELECT test_loss FROM epoch WHERE epoch = 1'");
	ck_assert_double_eq_tol(strtod(printed, NULL), want, 1e-4);
}

/* The loss depends on a count of the worker's steps, in a type that is not averaged. A real run
 * warms up. */
TEST(simulated_workers_have_buffers_of_their_own, 2)
{
	if (lacks("torch, numpy"))
		return;
	char *text AUTOFREE = sentence(
		"import torch\nfrom torch import nn\n"
		"def data():\n  a = lambda n: (torch.arange(3.0 * n).reshape(n, 3) / n, "
		"torch.ones(n))\n  return a(40), a(10)\n"
		"class M(nn.Module):\n  def __init__(self):\n    super().__init__()\n"
		"    self.a = nn.Linear(3, 1)\n    self.register_buffer('n', torch.zeros(1, "
		"dtype=torch.%s))\n"
		"  def forward(self, x):\n    if self.training: %s\n"
		"    return self.a(x) / self.n.float().clamp(1)\ndef model(): return M()\n",
		_i ? "float64" : "int64", _i ? "self.n = self.n + 1" : "self.n += 1");
	folder_text("mine.py", text);
	DO(0, RUN "--workload=./mine.py --batch=4 --workers=2 --strategy=periodic --sync-every=2 "
		  "&& " RUN FAST "--workload=./mine.py --batch=4 --workers=2 --strategy=periodic "
		  "--sync-every=2");
	answers("SELECT count(*), count(DISTINCT test_loss), count(DISTINCT train_loss), "
		"count(DISTINCT running_loss) FROM epoch WHERE epoch = 2",
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

/* Whole files, compared in the same way; the loop below knows their forms. */
TEST(torch_files_equal_a_plain_loop, 6)
{
	static const struct {
		const char *text;
		double within;
		const char *needs;
	} row[] = {
		{ROWS "def model(): return torch.compile(nn.Sequential(nn.Linear(3, 5), nn.Tanh(), "
		      "nn.Linear(5, 1)), backend='aot_eager')\n",
		 1e-5, "torch._dynamo"},
		{ROWS "def model(): return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, "
		      "1))\n"
		      "def loss(m, b):\n  with torch.autocast('cpu', dtype=torch.bfloat16): z = "
		      "m(b[0])\n  return ((z.float().flatten() - b[1]) ** 2).mean()\n",
		 1e-2, "torch"},
		{ROWS "from torch.utils.checkpoint import checkpoint\nclass M(nn.Module):\n"
		      "  def __init__(self):\n    super().__init__(); self.a = nn.Linear(3, 5); "
		      "self.b = nn.Linear(5, 1)\n"
		      "  def forward(self, x): return self.b(checkpoint(lambda x: "
		      "torch.tanh(self.a(x)), x, use_reentrant=False))\ndef model(): return M()\n",
		 1e-5, "torch"},
		{"def data():\n  a = lambda n: (torch.arange(3.0 * n).reshape(n, 3) / n, "
		 "torch.arange(2.0 * n).reshape(n, 2) / n, torch.ones(n))\n  return a(40), a(10)\n"
		 "class M(nn.Module):\n  def __init__(self):\n    super().__init__(); self.a = "
		 "nn.Linear(5, 1)\n  def forward(self, x, z): return self.a(torch.cat([x, z], "
		 "1))\ndef model(): return M()\n",
		 1e-5, "torch"},
		{"def data():\n  a = lambda n: {'y': torch.ones(n), 'x': torch.arange(3.0 * "
		 "n).reshape(n, 3) / n}\n  return a(40), a(10)\n"
		 "def model(): return nn.ModuleDict({'a': nn.Linear(3, 1)})\n"
		 "def loss(m, b): return ((m['a'](b['x'])[:, 0] - b['y']) ** 2).mean()\n",
		 1e-5, "torch"},
		{"def data():\n  a = lambda n: [(torch.arange(1.0 + i % 4) / n, 1.0) for i in "
		 "range(n)]\n  return a(40), a(10)\n"
		 "def collate(rows): return nn.utils.rnn.pad_sequence([r[0] for r in rows], True), "
		 "torch.tensor([r[1] for r in rows])\n"
		 "class M(nn.Module):\n  def __init__(self):\n    super().__init__(); self.a = "
		 "nn.GRU(1, 4, batch_first=True); self.b = nn.Linear(4, 1)\n"
		 "  def forward(self, x): return self.b(self.a(x[:, :, None])[0].sum(1))\n"
		 "def model(): return M()\n",
		 1e-5, "torch"},
	};
	if (lacks("torch, numpy") || lacks(row[_i].needs))
		return;
	char *text AUTOFREE = sentence(TORCH "%s", row[_i].text);
	folder_text("mine.py", text);
	DO(0,
	   RUN "--workload=./mine.py --batch=40 --epochs=20 --lr=0.05 --momentum=0 "
	       "--strategy=serial && sqlite3 mvbench.db 'SELECT test_loss FROM epoch WHERE epoch = "
	       "20' >loss && %s -c '\nimport mine, torch\ntorch.set_num_threads(1)\n"
	       "torch.manual_seed(1)\ntrain, test = mine.data()\nm = mine.model().train()\n"
	       "if isinstance(train, list): train, test = mine.collate(train), mine.collate(test)\n"
	       "mse = lambda m, b: torch.nn.functional.mse_loss(m(*b[:-1]).flatten(), b[-1])\n"
	       "f = getattr(mine, \"loss\", mse)\n"
	       "o = torch.optim.SGD(m.parameters(), lr=0.05)\nbefore = float(f(m, test))\n"
	       "for _ in range(20):\n  o.zero_grad(); f(m, train).backward(); o.step()\n"
	       "m.eval()\nwant = float(f(m, test))\ngot = float(open(\"loss\").read())\n"
	       "assert want < before and abs(got - want) < %g * abs(want), (got, want, before)'",
	   interpreter, row[_i].within);
}

/* With the default loss, with one of the file, and that one alone. Ten of 40 rows are correct in
 * training, four of ten in the test: the file says so. */
TEST(accuracy_of_a_torch_file_is_its_own, 3)
{
	static const char *const more[] = {
		"", "def loss(m, b): return nn.functional.cross_entropy(m(b[0]), b[1])\n"};
	if (lacks("torch, numpy"))
		return;
	char *text AUTOFREE =
		sentence(TORCH "def data():\n  a = lambda n: (torch.ones(n, 3), torch.arange(n) %% "
			       "4)\n  return a(40), a(10)\n"
			       "def model(): return nn.Linear(3, 4)\n%s%s",
			 more[_i > 0],
			 _i == 2 ? ""
				 : "def accuracy(m, b):\n  assert not m.training and not "
				   "torch.is_grad_enabled()\n"
				   "  return 0.25 if len(b[1]) == 40 else 0.4\n");
	folder_text("mine.py", text);
	DO(0, RUN "--workload=./mine.py --batch=10 --epochs=1 --strategy=serial");
	answers("SELECT train_accuracy, test_accuracy, running_accuracy IS NULL FROM epoch WHERE "
		"epoch = 1",
		_i == 2 ? "||1" : "0.25|0.4|1");
	if (_i == 2)
		return;
	DO(0, "sed -i 's/0.25 if/25.0 if/' mine.py");
	DO(1, RUN "--workload=./mine.py --batch=10 --strategy=serial");
	expect("accuracy(): return the fraction of correct answers, from 0 to 1, not 25");
}

/* A model of a library may return a dictionary; that of two classes often has one output. */
TEST(output_that_the_default_loss_cannot_take_is_named, 3)
{
	static const struct {
		const char *output, *says;
	} row[] = {
		{"{'a': self.a(x)}",
		 "the model returns dict, not a tensor: define loss(model, batch)"},
		{"self.a(x)", ", 1), and targets of whole numbers are classes: give an output for"},
		{"self.a(x)[:, 0]", ",), and targets of whole numbers are classes: give an output"},
	};
	if (lacks("torch, numpy"))
		return;
	char *text AUTOFREE = sentence(
		TORCH "def data():\n  a = lambda n: (torch.ones(n, 3), torch.arange(n) %% "
		      "2)\n  return a(40), a(10)\n"
		      "class M(nn.Module):\n  def __init__(self):\n    super().__init__(); "
		      "self.a = nn.Linear(3, 1)\n  def forward(self, x): return %s\n"
		      "def model(): return M()\n",
		row[_i].output);
	folder_text("mine.py", text);
	/* status 2 if PyTorch counts flops, which calls the model before the workers start */
	DO(0, "! " RUN "--workload=./mine.py --strategy=serial");
	expect(row[_i].says);
}

/* A Dataset gives its rows one by one: they are those of the arrays. */
TEST(data_set_has_the_accuracy_of_its_arrays)
{
	if (lacks("torch, numpy"))
		return;
	folder_text("set.py",
		    TORCH "def data():\n  x = torch.arange(150.0).reshape(50, 3) % 7 / 7\n"
			  "  y = (x.sum(1) > 1.3).long()\n"
			  "  return torch.utils.data.TensorDataset(x[:40], y[:40]), "
			  "torch.utils.data.TensorDataset(x[40:], y[40:])\n"
			  "def model(): return nn.Linear(3, 2)\n");
	DO(0, "sed 's/torch.utils.data.TensorDataset//g' set.py >arrays.py; for f in set arrays; "
	      "do " RUN "--workload=./$f.py --batch=10 --strategy=serial; done");
	answers("SELECT count(test_accuracy), count(DISTINCT test_accuracy), count(DISTINCT "
		"test_loss) FROM epoch WHERE epoch = 2",
		"2|1|1");
}

/* Without a calibration the layers take their shares of flops: an allreduce that starts early ends
 * early. */
TEST(overlap_hides_messages_of_a_torch_model)
{
	if (lacks("torch.utils.flop_counter, numpy")) /* PyTorch 2.1 */
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

/* A reentrant checkpoint has a backward pass of its own. Two of them with one layer give its
 * gradient in two parts, and the first one must not be sent as the whole. */
TEST(gradient_in_several_parts_is_refused_with_overlap)
{
	if (lacks("torch.utils.flop_counter, numpy")) /* PyTorch 2.1 */
		return;
	folder_text(
		"mine.py", TORCH ROWS
		"from torch.utils.checkpoint import checkpoint\nclass M(nn.Module):\n"
		"  def __init__(self):\n    super().__init__(); self.a = nn.Linear(3, 3); self.b "
		"= nn.Linear(3, 1)\n"
		"  def forward(self, x):\n    x = x.clone().requires_grad_()\n"
		"    for _ in range(2): x = checkpoint(lambda x: torch.tanh(self.a(x)), x, "
		"use_reentrant=True)\n    return self.b(x)\ndef model(): return M()\n");
	DO(0, RUN "--workload=./mine.py --batch=10 --lr=0.01 --workers=2 --strategy=allreduce");
	DO(1, RUN "--workload=./mine.py --batch=10 --lr=0.01 --workers=2 --strategy=allreduce "
		  "--allreduce.overlap");
	expect("comes in several parts, as with a reentrant checkpoint");
	answers("SELECT group_concat(status) FROM run", "done,failed");
	DO(0, "mvbench calibrate --workload=./mine.py --batch=10 --seconds=50ms --repetitions=1 "
	      "--counts=1");
	answers("SELECT count(*) > 0, total(name = 'layer') FROM calibration_point", "1|0.0");
}

/* The sleep belongs to the layer below it. */
TEST(calibration_measures_layers_of_a_torch_model)
{
	if (lacks("torch.utils.flop_counter, numpy")) /* PyTorch 2.1 */
		return;
	folder_text("mine.py", TORCH ROWS
		    "import time\nclass Slow(torch.autograd.Function):\n"
		    "  @staticmethod\n  def forward(c, x): return x.clone()\n"
		    "  @staticmethod\n  def backward(c, g):\n    time.sleep(0.03)\n    return g\n"
		    "class M(nn.Module):\n  def __init__(self):\n    super().__init__(); self.a = "
		    "nn.Linear(3, 4); self.b = nn.Linear(4, 1)\n"
		    "  def forward(self, x): return self.b(Slow.apply(self.a(x)))\n"
		    "def model(): return M()\n");
	DO(0, "mvbench calibrate --workload=./mine.py --batch=10 --seconds=50ms "
	      "--repetitions=1 --counts=1");
	answers("SELECT group_concat(value >= 0.03) FROM (SELECT value FROM calibration_point "
		"WHERE name = 'layer' ORDER BY x)",
		"1,0,0");
}

/* PyTorch counts no operation of this model. Its layers take shares by their parameters. */
TEST(torch_model_without_flops_overlaps_in_a_simulation)
{
	if (lacks("torch.utils.flop_counter, numpy")) /* PyTorch 2.1 */
		return;
	folder_text(
		"mine.py", TORCH ROWS
		"class M(nn.Module):\n  def __init__(self):\n    super().__init__(); self.a = "
		"nn.Parameter(torch.ones(3))\n"
		"  def forward(self, x): return (x * self.a).sum(1)\ndef model(): return M()\n");
	DO(0, RUN FAST "--workload=./mine.py --batch=10 --lr=1e-3 --workers=2 "
		       "--strategy=allreduce --allreduce.overlap");
	/* two steps of 2 ms */
	answers("SELECT seconds BETWEEN 0.004 AND 0.1 FROM epoch WHERE epoch = 2", "1");
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

TEST(torch_model_is_refused, 7)
{
	static const struct {
		const char *model, *more, *says;
	} row[] = {
		{"nn.Linear(3, 1).double()", "", "weight is float64, and mvbench trains float32"},
		{"nn.Linear(3, 1).bfloat16()", "",
		 "weight is bfloat16, and mvbench trains float32"},
		{"nn.Sequential(nn.Linear(3, 1), nn.Embedding(3, 1, sparse=True))", "",
		 "1 has sparse gradients"},
		{"nn.Sequential(nn.Linear(3, 1), nn.BatchNorm1d(1, momentum=None))", "",
		 "the momentum of 1 is None"},
		{"nn.Linear(3, 1)", "--workers=2 --strategy=model_parallel",
		 "has no linear layers that can be split"},
		{"nn.Linear(3, 1)", "--workers=2 --strategy=hybrid --hybrid.group=2",
		 "has no linear layers that can be split"},
		{"3", "", "model(): return a torch.nn.Module, not int"}};
	if (lacks("torch, numpy"))
		return;
	char *text AUTOFREE = sentence(TORCH ROWS "def model(): return %s\n", row[_i].model);
	folder_text("mine.py", text);
	DO(2, RUN "--workload=./mine.py %s", row[_i].more);
	expect(row[_i].says);
}
