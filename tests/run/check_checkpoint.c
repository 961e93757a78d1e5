/*
 * check_checkpoint.c - checkpoints: killed runs resume with the same losses and the same model, bit
 * for bit; runs start from the model of another run; files that do not fit are refused.
 */
#include "results/db/db.h"
#include "runtime/config/checkpoint.h"
#include "runtime/config/config.h"
#include "tests/suites.h"
#include "tests/trained.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT = 8192, TRIES = 5 };

#define SMALL   "--workload=mlp --mlp.hidden=16 --batch=12 --momentum=0.9 "
#define LONG    SMALL "--epochs=6 --step-time=10ms --train-rows=240 "
#define SHORTER SMALL "--steps=55 --step-time=10ms --train-rows=240 "
#define RUN_2   "(SELECT max(id) FROM run)"
#define SIM     "--platform=sim --sim.platform=gpu4_nvlink --sim.step-time=1ms "

static char save[128], other[128]; /* files of the folder */

static void make_folder(void)
{
	small_data();
	snprintf(save, sizeof save, "%s/save", folder);
	snprintf(other, sizeof other, "%s/other", folder);
	use_gpu();
}

/* Runs are on the CPU, unless their words have a device. */
static const char *cpu_unless(const char *how)
{
	return strstr(how, "--device=") ? "" : "--device=cpu";
}

/* Kills every process whose command line names the folder's database: the workers and the
 * watcher. */
static void kill_all(void)
{
	char out[OUTPUT],
		*command AUTOFREE = sentence("while p=$(pgrep -f -- '--db=%s/run.[d]b'); do "
					     "kill -9 $p 2>/dev/null; sleep 0.01; done",
					     folder);
	command_output(command, out, sizeof out);
}

/* Runs mvbench with words, and kills all of it as soon as there is a checkpoint. */
static void run_and_kill(const char *how)
{
	char *command AUTOFREE =
		sentence("ASAN_OPTIONS=detect_leaks=0 exec ./mvbench run --data-dir=%s "
			 "--db=%s/run.db %s --save=%s %s >/dev/null 2>&1",
			 folder, folder, cpu_unless(how), save, how);
	pid_t child = fork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(99);
	}
	for (int i = 0; i < 20000 && access(save, F_OK) != 0; i++)
		usleep(1000);
	kill_all();
	waitpid(child, NULL, 0);
}

static struct checkpoint_head head_now(void)
{
	struct checkpoint_head head;
	char *wrong = checkpoint_read_head("save", save, &head);
	ck_assert_msg(!wrong, "%s", wrong);
	return head;
}

/* Run 2 of the folder's database is interrupted; run 1 is complete. On a busy machine run 2 may end
 * before it is killed. Then it is deleted and repeated. */
static void interrupt(const char *how)
{
	char *forget AUTOFREE = sentence("rm %s/save; sqlite3 %s/run.db 'PRAGMA foreign_keys = 1; "
					 "DELETE FROM run WHERE id > 1'",
					 folder, folder);
	char out[OUTPUT];
	for (int i = 0; i < TRIES; i++) {
		run_and_kill(how);
		struct checkpoint_head head = head_now();
		if (head.epoch < head.epochs)
			break;
		ck_assert_int_eq(command_output(forget, out, sizeof out), 0);
	}
}

static void go_on(const char *how)
{
	char out[OUTPUT];
	int status =
		run_mvbench("timeout 100 env", words("%s --save=%s %s", cpu_unless(how), save, how),
			    out, sizeof out);
	ck_assert_msg(status == EXIT_OK && strstr(out, "resumes after epoch"), "%s: status %d: %s",
		      how, status, out);
}

static const char *const exact[] = {
	LONG "--strategy=serial --lr-schedule=step:2 --weight-decay=1e-3",
	LONG "--strategy=allreduce --workers=2 --batch=24 --eval-every=7",
	LONG "--strategy=allreduce --allreduce.overlap=true --workers=2",
	LONG "--strategy=periodic --workers=2 --sync-every=7",
	LONG "--strategy=periodic --workers=2 --sync-every=7 --reduce=sum --barrier-every=3",
	LONG "--strategy=periodic --periodic.outer=momentum --periodic.schedule=up --workers=2 "
	     "--sync-every=4",
	LONG "--strategy=periodic --periodic.outer=nesterov --workers=2 --sync-every=4",
	LONG "--strategy=periodic --periodic.outer=adamw:beta2=0.95 --periodic.outer-lr=0.003 "
	     "--periodic.schedule=up --workers=2 --sync-every=4",
	LONG "--strategy=periodic --periodic.outer=muon --periodic.outer-lr=0.01 --workers=2 "
	     "--sync-every=7",
	LONG "--strategy=periodic --workers=2 --sync-every=7 --momentum=0 --optimizer=adamw "
	     "--lr=0.003 --clip=1 --state=reset",
	LONG "--strategy=periodic --workers=2 --sync-every=7 --periodic.fragments=2 "
	     "--periodic.delay=5 --periodic.mix=0.5 --periodic.outer=nesterov",
	LONG "--strategy=periodic --workers=3 --sync-every=7 --periodic.delay=7 "
	     "--periodic.eager --periodic.outer=nesterov",
	LONG "--strategy=periodic --workers=2 --sync-every=7 --periodic.delay=7 "
	     "--periodic.fragments=2 --periodic.outer=adamw --periodic.outer-lr=0.003",
	LONG "--strategy=periodic --workers=4 --sync-every=7 --periodic.group=2 "
	     "--periodic.group-every=3",
	LONG "--strategy=sparta --workers=2 --sparta.share=0.1",
	LONG "--strategy=adasum --workers=4 --accumulate=2 --ema=0.9",
	LONG "--strategy=periodic --workers=2 --sync-every=7 --ema=1 --momentum=0 "
	     "--optimizer=lamb --lr=0.003",
	SHORTER "--strategy=allreduce --workers=2 --optimizer=lars --lr=2 --lr-schedule=cosine",
	LONG "--strategy=gossip --workers=3 --sync-every=2 --gossip.schedule=pairs "
	     "--gossip.outer-lr=0.7 --gossip.outer-momentum=0.5",
	LONG "--strategy=asgd --asgd.updater=delayed_nesterov --workers=1 --sync-every=3",
	/* what codecs have lost, the factors of powersgd, and the number of messages sent */
	LONG "--strategy=allreduce --workers=2 --codec=int8",
	LONG "--strategy=allreduce --workers=3 --codec=int4 --int4.rounding=stochastic",
	LONG "--strategy=allreduce --workers=2 --codec=powersgd --allreduce.overlap=true",
	LONG "--strategy=periodic --periodic.outer=nesterov --workers=2 --sync-every=4 "
	     "--codec=topk --topk.share=0.05",
	LONG "--strategy=allreduce --workers=2 --codec=topk --topk.of=chunks --topk.bits=2",
	LONG "--strategy=easgd --easgd.form=synchronous --workers=2 --sync-every=3 --codec=randomk",
	LONG "--strategy=periodic --workers=2 --sync-every=7 --periodic.fragments=2 "
	     "--periodic.delay=5 --codec=fp4",
	LONG "--strategy=gossip --workers=3 --sync-every=2 --gossip.schedule=pairs --codec=int4",
	LONG "--strategy=gossip --workers=3 --sync-every=2",
	LONG "--strategy=gossip --gossip.schedule=hypercube --workers=2 --split=fixed",
	LONG "--strategy=model_parallel --workers=2",
	LONG "--strategy=hybrid --workers=4",
	LONG "--strategy=easgd --easgd.form=synchronous --workers=2 --sync-every=3",
	/* with one worker, a strategy with tables has one order of pushes */
	LONG "--strategy=asgd --workers=1",
	LONG "--strategy=asgd --asgd.local=dynamic --workers=1 --sync-every=3",
	LONG "--strategy=bsp --bsp.late=join --workers=1 --sync-every=3",
	LONG "--strategy=adpsgd --workers=1",
	LONG "--strategy=asgd --asgd.updater=momentum --workers=1 --servers=2 --sync-every=3",
	LONG "--strategy=asgd --workers=1 --servers=2 --sync-every=3 --codec=topk",
	LONG "--strategy=asgd --workers=1 --servers=2 --sync-every=3 --codec=int8 "
	     "--codec.pull=true",
	LONG "--strategy=asgd --workers=1 --servers=1 --sync-every=3 --codec=int4 "
	     "--int4.rounding=stochastic",
	LONG "--strategy=easgd --workers=1 --servers=2 --sync-every=3 --codec=randomk",
	LONG "--strategy=asgd --workers=1 --servers=2 --sync-every=3 --codec=topk "
	     "--codec.pull=bf16",
	LONG "--strategy=asgd --workers=1 --servers=1 --sync-every=3 --codec.pull=int8",
	LONG "--strategy=asgd --asgd.updater=momentum_ema --workers=1 --sync-every=3",
	LONG "--strategy=asgd --asgd.updater=adagrad --asgd.rho=0.01 --workers=1 "
	     "--table-home=onesided",
	LONG "--strategy=asgd --asgd.updater=dcasgda --workers=1 --servers=1 --lr=0.01",
	LONG "--strategy=bsp --bsp.updater=adagrad_shared --bsp.rho=0.01 --workers=1",
	LONG "--strategy=asgd --asgd.updater=adam --momentum=0 --lr=0.003 --workers=1",
	LONG "--strategy=bsp --bsp.updater=adam --momentum=0 --lr=0.003 --workers=1 --servers=2",
	LONG "--strategy=ssp --workers=1 --servers=1",
	LONG "--strategy=downpour --downpour.send=3 --sync-every=2 --workers=1",
	/* the other workloads */
	"--workload=softmax --train-rows=240 --batch=12 --step-time=10ms --epochs=8 "
	"--strategy=serial",
	"--workload=perceptron --train-rows=200 --batch=4 --step-time=10ms --epochs=8 "
	"--strategy=gossip --workers=2",
	"--workload=tanh_mlp --tanh_mlp.hidden=16 --train-rows=240 --batch=12 "
	"--step-time=10ms --epochs=8 --strategy=hybrid --workers=2",
	"--workload=lenet --lenet.dropout=0.5 --train-rows=120 --batch=12 --step-time=20ms "
	"--epochs=6 --strategy=allreduce --workers=2",
	"--workload=resnet --resnet.depth=20 --train-rows=24 --batch=6 --step-time=60ms "
	"--epochs=6 --strategy=periodic --workers=2",
	/* simulated */
	SMALL SIM "--epochs=150 --strategy=allreduce --workers=4",
	SMALL SIM "--epochs=150 --strategy=hybrid --workers=4",
	SMALL SIM "--epochs=150 --strategy=asgd --asgd.updater=momentum --workers=1",
	/* the last one: with a GPU, which keeps what the codec has lost */
	LONG "--strategy=allreduce --workers=2 --codec=int8 --device=cuda",
};

CASE("go on", .limit = 240, .set_up = make_folder, .tear_down = folder_free);

/* The run resumes in its own row, and no epoch is recorded twice. */
TEST(killed_run_resumes_bit_for_bit, COUNT(exact) - !have_gpu())
{
	const char *how = exact[_i];
	record_run(words("%s %s", cpu_unless(how), how));
	interrupt(how);
	go_on(how);
	expect_row("SELECT count(*), sum(resumed), count(DISTINCT config_hash), "
		   "count(DISTINCT model_hash), sum(status = 'done') FROM run",
		   "2,1,1,1,2\r\n");
	static const char *const id[] = {"1", RUN_2};
	for (int i = 0; i < 2; i++)
		expect_row(words("SELECT count(*) FROM (SELECT epoch, running_loss, train_loss, "
				 "test_loss, consensus, pushes FROM epoch WHERE run_id = %s EXCEPT "
				 "SELECT epoch, running_loss, train_loss, test_loss, consensus, "
				 "pushes FROM epoch WHERE run_id = %s)",
				 id[i], id[1 - i]),
			   "0\r\n");
	expect_row("SELECT count(*) FROM (SELECT step, test_loss FROM evaluation WHERE run_id = 1 "
		   "EXCEPT SELECT step, test_loss FROM evaluation WHERE run_id = " RUN_2 ")",
		   "0\r\n");
	ck_assert(head_now().ended);
	expect_row("SELECT count(*) FROM run_summary WHERE simulated_s < seconds_total", "0\r\n");
}

static const char *const any_order[] = {
	LONG "--strategy=asgd --workers=2 --split=fixed",
	LONG "--strategy=asgd --asgd.updater=adagrad_shared "
	     "--asgd.rho=0.01 --workers=2 --servers=2",
	LONG "--strategy=ssp --ssp.bound=1 --workers=2 --speed=0:0.5",
	LONG "--strategy=bsp --bsp.backup=1 --workers=2",
	LONG "--strategy=downpour --workers=2 --table-home=onesided",
	SMALL SIM "--epochs=150 --strategy=asgd --workers=4",
};

/* If pushes come in any order, the model continues from the checkpoint, and all rows are trained
 * on. */
TEST(killed_asynchronous_run_resumes, COUNT(any_order))
{
	const char *how = any_order[_i];
	record_run(words("--device=cpu %s", how));
	interrupt(how);
	go_on(how);
	expect_row("SELECT count(*), sum(resumed), sum(status = 'done') FROM run", "2,1,2\r\n");
	expect_row(
		"SELECT count(*), min(epoch), max(epoch) = (SELECT epochs FROM run WHERE id = 1) "
		"FROM epoch WHERE run_id = " RUN_2
		" GROUP BY run_id HAVING count(*) = max(epoch) + 1 AND "
		"max(test_loss) = (SELECT test_loss FROM epoch WHERE run_id = " RUN_2
		" AND epoch = 0)",
		words("%d,0,1\r\n", strstr(how, "=150") ? 151 : 7));
}

/* ---- Starting from a model ----------------------------------------------- */

static void save_model(const char *how)
{
	record_run(words("--device=cpu --save=%s %s", save, how));
}

static const struct beginning {
	const char *from, *with;
} beginnings[] = {
	{SMALL "--epochs=1 --strategy=serial", SMALL "--strategy=asgd --workers=2"},
	{SMALL "--epochs=1 --strategy=serial", SMALL "--strategy=asgd --workers=2 --servers=1"},
	{SMALL "--epochs=1 --strategy=serial", SMALL "--strategy=hybrid --workers=4"},
	{SMALL "--epochs=1 --strategy=model_parallel --workers=3", SMALL "--strategy=serial"},
	{SMALL "--epochs=1 --strategy=asgd --workers=2",
	 SMALL "--strategy=easgd --easgd.form=synchronous --workers=2"},
	{SMALL "--epochs=1 --strategy=gossip --workers=3",
	 SMALL "--strategy=periodic --periodic.outer=nesterov --workers=2"},
	{SMALL "--epochs=1 --strategy=serial", SMALL SIM "--strategy=asgd --workers=4"},
	{"--workload=lenet --train-rows=120 --batch=60 --epochs=1 --strategy=model_parallel "
	 "--workers=2",
	 "--workload=lenet --train-rows=120 --batch=60 --strategy=allreduce --workers=2"},
	{"--workload=resnet --resnet.depth=20 --train-rows=60 --batch=30 --epochs=1 "
	 "--strategy=allreduce --workers=2",
	 "--workload=resnet --resnet.depth=20 --train-rows=60 --batch=30 --strategy=serial"},
};

CASE("begin", .limit = 120, .set_up = make_folder, .tear_down = folder_free);

/* The first evaluation equals that of the model. The run is a cell of its own. */
TEST(run_starts_from_a_saved_model, COUNT(beginnings))
{
	const struct beginning *b = &beginnings[_i];
	struct checkpoint_head head;
	save_model(b->from);
	ck_assert_ptr_null(checkpoint_read_head("save", save, &head));
	record_run(words("--device=cpu --epochs=1 --init-from=%s %s", save, b->with));
	expect_row("SELECT abs(a.test_loss - b.test_loss) < 1e-5 * a.test_loss, "
		   "abs(a.train_loss - b.train_loss) < 1e-5 * a.train_loss, "
		   "a.test_accuracy = b.test_accuracy FROM epoch AS a, epoch AS b "
		   "WHERE a.run_id = 1 AND a.epoch = 1 AND b.run_id = 2 AND b.epoch = 0",
		   "1,1,1\r\n");
	record_run(words("--device=cpu --epochs=1 %s", b->with));
	expect_row("SELECT group_concat(initial_model), count(DISTINCT config_hash), "
		   "count(DISTINCT config_key) FROM run_summary WHERE id > 1",
		   words("\"%s,\",2,2\r\n", head.model));
}

/* A step by lr x weight decay = 1.3 turns each weight around: the saved model is better than all
 * later ones, and the second of these is better than the third. */
TEST(printed_best_accuracy_is_of_trained_models)
{
	char out[OUTPUT];
	double was[3] = {0}; /* accuracy of the saved model, the best, and the last one */
	save_model("--workload=softmax --epochs=4 --batch=12 --lr=0.01");
	int status = run_mvbench("timeout 60 env",
				 words("--device=cpu --workload=softmax --epochs=3 --batch=600 "
				       "--lr=0.13 --weight-decay=10 --init-from=%s",
				       save),
				 out, OUTPUT);
	ck_assert_msg(status == EXIT_OK, "status %d: %s", status, out);
	struct store *s AUTOCLOSE = NULL;
	char *wrong = store_open(&s, words("%s/run.db", folder), STORE_READ);
	ck_assert_msg(!wrong, "%s", wrong);
	wrong = sql_reals(s, was, COUNT(was),
			  "SELECT max(iif(epoch = 0, test_accuracy, 0)), "
			  "max(iif(epoch > 0, test_accuracy, 0)), "
			  "max(iif(epoch = 3, test_accuracy, 0)) FROM epoch WHERE run_id = 2",
			  "");
	ck_assert_msg(!wrong && was[0] > was[1] && was[1] > was[2], "%s %g, %g, %g",
		      wrong ? wrong : "", was[0], was[1], was[2]);
	char *says AUTOFREE =
		sentence("test accuracy %.2f %% (best %.2f %%), ", 100 * was[2], 100 * was[1]);
	ck_assert_msg(strstr(out, says), "no \"%s\" in\n%s", says, out);
}

/* The model, not the path of its file, is part of the cell. The command of the row repeats the
 * run. */
TEST(initial_model_is_part_of_the_cell)
{
	char out[OUTPUT];
	save_model(SMALL "--epochs=1");
	ck_assert_int_eq(command_output(words("cp %s %s", save, other), out, OUTPUT), 0);
	record_run(words(SMALL "--epochs=1 --init-from=%s", save));
	record_run(words(SMALL "--epochs=1 --init-from=%s", other));
	expect_row("SELECT count(DISTINCT config_hash), count(DISTINCT model_hash) FROM run "
		   "WHERE id > 1",
		   "1,1\r\n");
	/* if that file now holds another model, the command of the row is refused */
	ck_assert_int_eq(command_output(words("rm %s", save), out, OUTPUT), 0);
	save_model(SMALL "--epochs=1 --seed=2");
	expect_row("SELECT count(*) FROM run WHERE id = 2 AND init_from LIKE '%/save' AND "
		   "length(initial_model) = 16",
		   "1\r\n");
	struct store *s;
	char *command, *wrong = store_open(&s, words("%s/run.db", folder), STORE_READ);
	bool same = false;
	ck_assert_msg(!wrong, "%s", wrong);
	wrong = recorded_command(s, 2, &command, &same);
	ck_assert_msg(!wrong && same, "%s", wrong);
	store_close(s);
	int status = command_output(words("timeout 60 ./%s 2>&1", command), out, OUTPUT);
	ck_assert_msg(status == EXIT_USER && strstr(out, "--initial-model="), "%s: %d, %s", command,
		      status, out);
	free(command);
}

/* ---- Refusals ------------------------------------------------------------------------ */

/* Changes n bytes of folder/save at `at`, from the end if that is negative. */
static void change(long at, const void *x, size_t n)
{
	FILE *f = fopen(save, "r+");
	ck_assert_ptr_nonnull(f);
	fseek(f, at, at < 0 ? SEEK_END : SEEK_SET);
	fwrite(x, 1, n, f);
	fclose(f);
}

#define HEAD(field) offsetof(struct checkpoint_head, field)

/* Every damaged file is refused with a reason, and nothing is trained. */
TEST(damaged_checkpoint_is_refused)
{
	static const struct {
		long at;
		int64_t value;
		const char *says;
	} changes[] = {{HEAD(magic), 7, "not a checkpoint"},
		       {HEAD(version), 99, "another version of mvbench"},
		       {HEAD(bytes), 7, "is cut, or was changed"},
		       {HEAD(workers), 0, "is cut, or was changed"},
		       {HEAD(workers), 4000, "is cut, or was changed"},
		       {HEAD(params), -1, "is cut, or was changed"},
		       {HEAD(params), INT64_MAX, "is cut, or was changed"},
		       {HEAD(params), 12809, "is cut, or was changed"},
		       {HEAD(buffers), INT64_MIN, "is cut, or was changed"},
		       {HEAD(epoch), 2, "is cut, or was changed"},
		       {HEAD(elapsed), -1, "is cut, or was changed"}, /* a NaN */
		       {HEAD(layout), 1, "is cut, or was changed"},
		       {sizeof(struct checkpoint_head), -4, "is cut, or was changed"},
		       {sizeof(struct checkpoint_head), INT64_MAX - 3, "is cut, or was changed"},
		       {sizeof(struct checkpoint_head) + 800, 1, "is cut, or was changed"},
		       {-8, 1, "is cut, or was changed"}};
	char out[OUTPUT];
	save_model(SMALL "--epochs=1");
	char *keep AUTOFREE = sentence("cp %s %s", save, other),
		   *back AUTOFREE = sentence("cp %s %s", other, save);
	ck_assert_int_eq(command_output(keep, out, OUTPUT), 0);
	for (size_t i = 0; i < COUNT(changes); i++) {
		ck_assert_int_eq(command_output(back, out, OUTPUT), 0);
		change(changes[i].at, &changes[i].value, sizeof changes[i].value);
		expect_refused("", words(SMALL "--init-from=%s", save), changes[i].says);
	}
	static const int cuts[] = {0, 7, 100, 1000, 50000};
	for (size_t i = 0; i < COUNT(cuts); i++) {
		ck_assert_int_eq(command_output(back, out, OUTPUT), 0);
		ck_assert_int_eq(truncate(save, cuts[i]), 0);
		expect_refused("", words(SMALL "--init-from=%s", save),
			       cuts[i] < 1000 ? "not a checkpoint" : "is cut");
		if (cuts[i]) /* --save does not overwrite a damaged file */
			expect_refused("", words(SMALL "--save=%s", save), save);
	}
	expect_row("SELECT count(*) FROM run", "1\r\n");
}

/* Before the first step, not at the first checkpoint. A name that ends in / is made. */
TEST(folder_of_checkpoints_is_checked_before_training)
{
	expect_refused("", words(SMALL "--save=%s/none/x", folder), "/none (No such file");
	expect_refused("", SMALL "--save=/proc/version/x/", "no file can be made in /proc/version");
	expect_refused("", SMALL "--save=/proc/version/x", "/proc/version (Not a directory)");
	record_run(words(SMALL "--epochs=1 --save=%s/new/er/", folder));
	expect_row("SELECT count(*), sum(status = 'done') FROM run", "1,1\r\n");
}

TEST(checkpoint_of_another_configuration_is_refused)
{
	save_model(SMALL "--epochs=1");
	expect_refused(
		"", words(SMALL "--epochs=1 --lr=0.05 --save=%s", save),
		"a checkpoint of another configuration, mlp, serial, 1 worker, after epoch 1 "
		"of 1");
	expect_refused("", words(SMALL "--strategy=allreduce --workers=2 --save=%s", save),
		       "a checkpoint of another configuration");
	expect_refused("", words("--workload=softmax --init-from=%s", save),
		       "it has a model of --workload=mlp, not of softmax");
	expect_refused("", words(SMALL "--mlp.hidden=17 --init-from=%s", save),
		       "its model has other layers, with 12730 parameters, and this one 13525");
	expect_refused("", words(SMALL "--init-from=%s --initial-model=0123456789abcdef", save),
		       "but --initial-model=0123456789abcdef was given");
	expect_refused("", SMALL "--initial-model=0123456789abcdef", "give that too");
	expect_refused("", words(SMALL "--init-from=%s --initial-model=x", save),
		       "16 hexadecimal digits");
	expect_refused("", words(SMALL "--init-from=%s/none", folder), "cannot be read");
	expect_refused("", words(SMALL "--init-from=%s", folder), "not a checkpoint");
	expect_refused("", words(SMALL "--save=%s/run.db", folder), "not a checkpoint");
	expect_refused("", words(SMALL SIM "--sim.train=false --init-from=%s", save),
		       "there is no model");
	expect_row("SELECT count(*) FROM run", "1\r\n");
}

CASE("go on");

/* The database lacks the run of the checkpoint, or that run has ended. */
TEST(checkpoint_of_an_unknown_run_is_refused)
{
	const char *how = LONG "--strategy=serial";
	record_run(words("--device=cpu %s", how));
	interrupt(how);
	expect_refused("", words("--device=cpu --save=%s --db=%s/other.db %s", save, folder, how),
		       "is of a run that is not in");
	expect_refused("", words("--device=cpu --save=%s --trace=2 %s", save, how),
		       "cannot continue from a checkpoint");
	go_on(how);
	/* the run has ended, so nothing is left to do: the same command starts a new run */
	record_run(words("--device=cpu --save=%s %s", save, how));
	expect_row("SELECT count(*), count(DISTINCT model_hash), sum(resumed) FROM run",
		   "3,1,1\r\n");
}

/* A power loss, or an older copy of the database, can leave fewer epochs than the checkpoint has.
 * The refusal says how to go on, and both ways work. */
TEST(checkpoint_ahead_of_its_database_says_how_to_go_on, 2)
{
	const char *how = SMALL "--epochs=6 --step-time=10ms --train-rows=240 --strategy=serial";
	char out[OUTPUT];
	record_run(words("--device=cpu %s", how));
	interrupt(how);
	char *shorten AUTOFREE = sentence(
		"sqlite3 %s/run.db 'DELETE FROM epoch WHERE run_id = " RUN_2 " AND epoch = %lld'",
		folder, (long long)(_i ? 0 : head_now().epoch));
	ck_assert_int_eq(command_output(shorten, out, OUTPUT), 0);
	expect_refused(
		"", words("--device=cpu --save=%s %s", save, how),
		"lacks epochs of this checkpoint: remove the file to start from the beginning; or "
		"train its model further in a new run, with --init-from");
	expect_row("SELECT count(*), status FROM run WHERE id = " RUN_2, "1,failed\r\n");
	record_run(words("--device=cpu --init-from=%s %s", save, how));
	ck_assert_int_eq(unlink(save), 0);
	record_run(words("--device=cpu --save=%s %s", save, how));
	expect_row("SELECT count(*), sum(status = 'done'), (SELECT model_hash FROM run WHERE id = "
		   "1) = (SELECT model_hash FROM run WHERE id = " RUN_2 ") FROM run",
		   "4,3,1\r\n");
}

/* What inject.so has logged of a file: is all of it on the disk? */
struct synced {
	bool there, whole;
};

/* The order of a run with --save on the disk: the rows of an epoch, its checkpoint, the
 * checkpoint's name. inject.c describes the log. */
TEST(checkpoint_is_on_the_disk_after_its_rows)
{
	char out[OUTPUT], line[2048], kind[16], path[512];
	long long offset, bytes;
	int renamed = 0;
	bool pending = false;
	struct synced rows = {false, true}, file = {false, true};
#ifdef __SANITIZE_ADDRESS__
	skipped("a preloaded library would come before the sanitizer's");
	return;
#endif
	if (access("inject.so", R_OK) != 0) {
		skipped("inject.so is not built here");
		return;
	}
	char *command AUTOFREE = sentence(
		"cd %s && mkdir d && head -c 256 /dev/zero >state && : >log && cd - >/dev/null "
		"&& LD_PRELOAD=$PWD/inject.so INJECT_UNDER=%s/d INJECT_STATE=%s/state "
		"INJECT_LOG=%s/log timeout 100 ./mvbench run --data-dir=%s --device=cpu " SMALL
		"--epochs=3 --train-rows=240 --strategy=serial --save=%s/d/save "
		"--db=%s/d/run.db 2>&1",
		folder, folder, folder, folder, folder, folder, folder);
	int status = command_output(command, out, OUTPUT);
	ck_assert_msg(status == EXIT_OK, "status %d: %s", status, out);
	FILE *f = fopen(words("%s/log", folder), "r");
	ck_assert_ptr_nonnull(f);
	while (fgets(line, sizeof line, f)) {
		ck_assert_int_eq(sscanf(line, "%15s %lld %lld %511s", kind, &offset, &bytes, path),
				 4);
		const char *ends = strrchr(path, '/');
		const bool is_log = strcmp(ends, "/run.db-wal") == 0,
			   is_part = strstr(ends, ".part") != NULL;
		const bool writes = strcmp(kind, "write") == 0, syncs = strcmp(kind, "fsync") == 0;
		if (writes) /* the bytes of a write come after it */
			ck_assert_int_eq(fseek(f, (long)bytes, SEEK_CUR), 0);
		struct synced *s = is_log ? &rows : is_part ? &file : NULL;
		if (s && writes)
			*s = (struct synced){true, false};
		else if (s && syncs)
			s->whole = true;
		else if (is_part && strcmp(kind, "create") == 0)
			ck_assert_msg(rows.there && rows.whole, "a checkpoint before its rows");
		if (strcmp(kind, "rename") == 0 && is_part) {
			ck_assert_msg(rows.there && rows.whole, "a checkpoint before its rows");
			ck_assert_msg(file.there && file.whole, "a name before its checkpoint");
			pending = true;
			renamed++;
		}
		if (syncs && strcmp(ends, "/d") == 0)
			pending = false;
		if (is_log && writes)
			ck_assert_msg(!pending, "the next rows before the checkpoint's name");
	}
	fclose(f);
	ck_assert(!pending);
	ck_assert_int_eq(renamed, 4); /* after each epoch, and its mark at the end */
}

/* The run is done, but its last checkpoint is not marked as ended, as after a kill in between. */
TEST(run_that_ended_before_its_last_mark_begins_again)
{
	char *how AUTOFREE = sentence("--device=cpu --save=%s " LONG "--strategy=serial", save);
	record_run(how);
	struct checkpoint_head head = head_now();
	ck_assert_int_eq(head.ended, 1);
	size_t n = (size_t)head.bytes;
	char *bytes AUTOFREE = must(malloc(n));
	FILE *f = fopen(save, "r+");
	ck_assert_uint_eq(fread(bytes, 1, n, f), n);
	head.ended = 0;
	memcpy(bytes, &head, sizeof head);
	uint64_t hash = hash_of(HASH_START, bytes, n - sizeof hash);
	memcpy(bytes + n - sizeof hash, &hash, sizeof hash);
	rewind(f);
	ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
	ck_assert_int_eq(fclose(f), 0);
	record_run(how);
	expect_row("SELECT count(*), sum(status = 'done'), count(DISTINCT model_hash), "
		   "sum(ifnull(resumed, 0)) FROM run",
		   "2,2,1,0\r\n");
}

/* A run does not resume with another build, on another machine, or into another run's file. */
TEST(resuming_under_other_conditions_is_refused)
{
	static const struct {
		const char *change, *says;
	} row[] = {{"git_commit = 'another'", "by another build of mvbench"},
		   {"cpu = 'another'", "on another processor"},
		   {"device = 'cuda'", "on another device"},
		   {"trace = 3", "with a timeline"},
		   {"status = 'diverged'", "has diverged"}};
	const char *how = LONG "--strategy=serial";
	char out[OUTPUT];
	record_run(words("--device=cpu %s", how));
	interrupt(how);
	for (size_t i = 0; i < COUNT(row); i++) {
		const char *command = words("cd %s && sqlite3 run.db '.backup kept.db' \"UPDATE "
					    "run SET %s WHERE id = " RUN_2 "\"",
					    folder, row[i].change);
		ck_assert_int_eq(command_output(command, out, sizeof out), 0);
		expect_refused("", words("--device=cpu --save=%s %s", save, how), row[i].says);
		command = words("cd %s && rm -f run.db* && mv kept.db run.db", folder);
		ck_assert_int_eq(command_output(command, out, sizeof out), 0);
	}
	struct checkpoint k = {.head = head_now()};
	k.state_bytes = calloc((size_t)k.head.workers, sizeof *k.state_bytes);
	k.model = calloc((size_t)(k.head.params + k.head.buffers), sizeof *k.model);
	k.state = calloc(1, 1);
	ck_assert_ptr_null(checkpoint_write(other, &k));
	ck_assert_ptr_null(checkpoint_write(other, &k));
	k.head.run[0] ^= 1;
	char *wrong AUTOFREE = checkpoint_write(other, &k);
	ck_assert_msg(wrong && strstr(wrong, "another run, mlp, serial, writes"), "%s", wrong);
	free(k.state_bytes);
	free(k.model);
	free(k.state);
	go_on(how);
}

/* A sweep claims a cell that another sweep was interrupted in: its row is pending again. */
TEST(claimed_run_resumes, 2)
{
	const char *how = _i ? LONG "--strategy=allreduce --workers=2" : LONG "--strategy=serial";
	char out[OUTPUT];
	record_run(words("--device=cpu %s", how));
	interrupt(how);
	const char *command = words("sqlite3 %s/run.db \"UPDATE run SET status = 'pending', "
				    "reason = NULL WHERE id = " RUN_2 "\"",
				    folder);
	ck_assert_int_eq(command_output(command, out, sizeof out), 0);
	go_on(how);
	expect_row("SELECT count(*), sum(resumed), sum(status = 'done'), "
		   "count(DISTINCT model_hash) FROM run",
		   "2,1,2,1\r\n");
}

/* The same command again is refused: it neither writes into the run that is still running nor marks
 * it failed. */
TEST(second_command_leaves_the_running_run_alone, 2)
{
	const char *how = _i ? "--strategy=allreduce --workers=2" : "--strategy=serial";
	char out[OUTPUT],
		*run AUTOFREE = sentence("ASAN_OPTIONS=detect_leaks=0 ./mvbench run --data-dir=%s "
					 "--db=%s/run.db --device=cpu --save=%s " SMALL
					 "--epochs=12 --train-rows=240 --step-time=20ms %s",
					 folder, folder, save, how);
	char *both AUTOFREE = sentence(
		"%s >%s/first 2>&1 & p=$!; while [ ! -e %s ]; do sleep 0.01; done; %s 2>&1; echo "
		"status $?; sqlite3 %s/run.db 'SELECT status FROM run'; wait $p || cat %s/first",
		run, folder, save, run, folder, folder);
	int status = command_output(both, out, OUTPUT);
	ck_assert_msg(status == EXIT_OK &&
			      strstr(out, "which made this checkpoint, is still "
					  "running") &&
			      strstr(out, "status 2\nrunning\n"),
		      "%s", out);
	expect_row("SELECT count(*), status, ifnull(reason, ''), (SELECT count(*) FROM epoch) FROM "
		   "run",
		   "1,done,,13\r\n");
}

/* ---- Sweeps ---------------------------------------------------------------------------- */

/* A folder has a file for each configuration, and an interrupted cell resumes. */
TEST(sweep_resumes_interrupted_cells)
{
	char out[OUTPUT];
	folder_text("two.ini", "[defaults]\nworkload = mlp\nmlp.hidden = 16\nbatch = 12\nepochs = "
			       "10\nstep-time = 10ms\ndevice = cpu\nseed = 1, 2\n[serial]\n");
	char *sweep AUTOFREE =
		sentence("ASAN_OPTIONS=detect_leaks=0 timeout 100 ./mvbench sweep %s/two.ini "
			 "--data-dir=%s --db=%s/run.db --save=",
			 folder, folder, folder);
	int status = command_output(words("%s%s/one 2>&1", sweep, folder), out, OUTPUT);
	ck_assert_msg(status == EXIT_USER && strstr(out, "give a folder"), "%d, %s", status, out);
	status = command_output(words("%s%s/all/ >/dev/null 2>&1 & p=$!; cd %s; "
				      "while ! ls all/*.ckpt >/dev/null 2>&1; do sleep 0.01; done; "
				      "kill $p; wait $p",
				      sweep, folder, folder),
				out, OUTPUT);
	status = command_output(words("%s%s/all/ 2>&1", sweep, folder), out, OUTPUT);
	ck_assert_msg(status == EXIT_OK, "%d, %s", status, out);
	expect_row(
		"SELECT count(*), sum(status = 'done'), sum(resumed), (SELECT count(*) FROM epoch) "
		"FROM run",
		"2,2,1,22\r\n");
	status = command_output(words("ls %s/all | wc -l", folder), out, OUTPUT);
	ck_assert_str_eq(out, "2\n");
}
