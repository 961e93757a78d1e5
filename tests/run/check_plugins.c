/*
 * check_plugins.c - plug-ins in files of the user: the examples of strategies/PLUGINS.md are taken
 * from the page, compiled and run. Each function of the contract exists; what is recorded, cached,
 * compared and refused.
 */
#include "tests/fixture.h"
#include "tests/suites.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUTPUT = 16384 };

static char out[OUTPUT];

/* Runs a command in the folder, with mvbench in the path; its output is in out. */
static int shell(const char *command)
{
	char *all AUTOFREE =
		sentence("exec 2>&1; b=$PWD; export PATH=\"$b:$PATH\" MVBENCH_DATA=%s "
			 "XDG_CACHE_HOME=%s/cache ASAN_OPTIONS=detect_leaks=0; cd %s; %s",
			 folder, folder, folder, command);
	return command_output(all, out, OUTPUT);
}

static void must_do(const char *command)
{
	int status = shell(command);
	ck_assert_msg(status == 0, "%s: status %d: %s", command, status, out);
}

/* The command is refused: status 2, and a message with these words. */
static void refused(const char *command, const char *says)
{
	int status = shell(command);
	ck_assert_msg(status == 2 && strstr(out, says), "%s: status %d: %s", command, status, out);
}

/* The query on the folder's database gives this. */
static void answers(const char *sql, const char *want)
{
	char *command AUTOFREE = sentence("sqlite3 mvbench.db \"%s\"", sql);
	must_do(command);
	out[strcspn(out, "\n")] = '\0';
	ck_assert_msg(strcmp(out, want) == 0, "%s: %s, not %s", sql, out, want);
}

static bool lacks_something(void)
{
	return lacks_program("cc") || lacks_program("sqlite3");
}

/* ---- The page ------------------------------------------------------------ */

static char *page_text(void)
{
	const char *home = getenv("MVBENCH_HOME");
	char *path AUTOFREE = sentence("%s/strategies/PLUGINS.md", home ? home : "");
	return text_read(path);
}

static bool have_page(void)
{
	char *page AUTOFREE = page_text();
	return page;
}

/* The next block of this kind, from the heap; NULL: no more. */
static char *next_block(const char **at, const char *kind)
{
	char *start AUTOFREE = sentence("\n```%s\n", kind);
	const char *begin = strstr(*at, start), *end;
	if (!begin)
		return NULL;
	begin += strlen(start);
	end = strstr(begin, "\n```\n");
	ck_assert_ptr_nonnull(end);
	*at = end;
	return must(strndup(begin, (size_t)(end + 1 - begin)));
}

/* Writes the examples to files with the names that their first comments give. */
static void put_examples(void)
{
	char *page AUTOFREE = page_text(), *block;
	int n = 0;
	for (const char *at = page; (block = next_block(&at, "c")); n++) {
		char name[64];
		ck_assert_int_eq(sscanf(block, "/* %60[a-z].c - ", name), 1);
		strcat(name, ".c");
		folder_text(name, block);
		free(block);
	}
	ck_assert_int_eq(n, 5);
}

static void set_up(void)
{
	small_data();
	put_examples();
}

CASE("plugins", .limit = 60, .set_up = set_up, .tear_down = folder_free,
     .lacks = have_page() ? NULL : "MVBENCH_HOME does not say where the page is");

TEST(commands_of_the_plugin_page_work)
{
	if (lacks_something())
		return;
	char *page AUTOFREE = page_text(), *block;
	int n = 0;
	for (const char *at = page; (block = next_block(&at, "sh")); n++) {
		folder_text("block.sh", block);
		must_do("sh -e block.sh");
		free(block);
	}
	ck_assert_int_ge(n, 5);
	/* one worker gives the serial run; the simulated run has the losses of the real one */
	answers("SELECT count(*), count(DISTINCT test_loss) FROM epoch JOIN run ON id = run_id "
		"WHERE workload = 'softmax' AND workers = 1 AND epoch = 3",
		"2|1");
	answers("SELECT count(*), count(DISTINCT test_loss) FROM epoch JOIN run ON id = run_id "
		"WHERE strategy = 'doubling' AND workload = 'softmax' AND workers = 2 AND epoch = "
		"3",
		"2|1");
	answers("SELECT count(*) FROM run WHERE status <> 'done'", "0");
	answers("SELECT count(*) FROM run WHERE workload = 'spirals' AND optimizer = 'damped'",
		"4");
	/* a gradient of its own: real and simulated losses are equal, and near the variance of the
	 * noise */
	answers("SELECT count(*), count(DISTINCT test_loss), count(DISTINCT train_loss), "
		"max(test_loss) < 30 FROM epoch JOIN run ON id = run_id WHERE workload = 'cubic' "
		"AND epoch = 3",
		"2|1|1|1");
	/* the codec's messages, of a quarter of the floats; feedback makes up for the others */
	answers("SELECT count(*), count(DISTINCT test_loss), sum(bytes_sent = 2 * 4 * ((params + "
		"3) / 4) * ((train_size + 2 * batch - 1) / (2 * batch))), min(codec_feedback), "
		"max(test_loss) < (SELECT max(test_loss) FROM epoch JOIN run ON id = run_id WHERE "
		"codec = 'comb' AND epoch = 0) FROM epoch JOIN run ON id = run_id WHERE codec = "
		"'comb' AND epoch = 3",
		"2|1|2|true|1");
	/* an epoch of the sweep sends the bytes of the formula: X is 1, then 2, of 50 steps */
	answers("SELECT max(abs(bytes_sent - 2 * 4.0 * params * steps)) < 1 FROM (SELECT params, "
		"bytes_sent, iif(epoch = 1, 50, 25) AS steps FROM epoch JOIN run ON id = run_id "
		"WHERE label = '' AND strategy = 'doubling' AND epochs = 2 AND epoch > 0)",
		"1");
}

TEST(example_workload_learns)
{
	if (lacks_something())
		return;
	must_do("mvbench run --workload=./spirals.c --strategy=serial");
	answers("SELECT test_accuracy > 0.95 FROM epoch WHERE epoch = 10", "1");
}

/* Every second float travels, the others are fed back: real and simulated runs have one loss, and
 * the source is recorded. */
static const char codec_text[] =
	"#include \"mvbench.h\"\n"
	"static bool yes(const void *opts) { (void)opts; return true; }\n"
	"static size_t bytes(const struct code *c) { return (c->n + 1) / 2 * sizeof(float); }\n"
	"static void encode(const struct code *c, void *wire, const float *x)\n"
	"{\n\tfor (size_t i = 0; i < c->n; i += 2)\n\t\t((float *)wire)[i / 2] = x[i];\n}\n"
	"static bool decode(const struct code *c, float *y, const void *wire, bool add)\n"
	"{\n\tfor (size_t i = 0; i < c->n; i++)\n"
	"\t\ty[i] = (add ? y[i] : 0) + (i % 2 ? 0 : ((const float *)wire)[i / 2]);\n"
	"\treturn true;\n}\n"
	"static const struct codec half = {.plugin = {.name = \"half\", .summary = \"half\"}, "
	".sums = CODEC_GATHERED,\n\t.feedback = yes, .bytes = bytes, .encode = encode, .decode = "
	"decode};\nMVBENCH_PLUGIN(.codec = &half);\n";

TEST(codec_of_a_file_trains)
{
	if (lacks_something())
		return;
	folder_text("half.c", codec_text);
	must_do("for where in '' '--platform=sim --sim.platform=ethernet_10g --sim.step-time=1ms'; "
		"do mvbench run --workload=softmax --epochs=2 --workers=2 --strategy=allreduce "
		"--codec=./half.c $where || exit; done");
	answers("SELECT count(*), count(DISTINCT test_loss), sum(bytes_sent = 2 * 2 * params * "
		"((train_size + 2 * batch - 1) / (2 * batch))) FROM epoch JOIN run ON id = run_id "
		"WHERE epoch = 2 AND codec = 'half' AND codec_feedback = 'true'",
		"2|1|2");
	answers("SELECT count(*) FROM run_option WHERE part = 'codec' AND name = 'source'", "2");
	refused("mvbench run --codec=./half.c:every=2", "--half.every: ");
	folder_text("bad.c", "#include \"mvbench.h\"\nstatic const struct codec bad = {.plugin = "
			     "{.name = \"bad\", .summary = \"bad\"}};\n"
			     "MVBENCH_PLUGIN(.codec = &bad);\n");
	refused("mvbench run --codec=./bad.c", "codec bad lacks .bytes");
}

/* ---- The contract -------------------------------------------------------- */

/* Writes the functions of a header: names before a parenthesis, in lines that begin a
 * declaration. */
static void put_functions(FILE *f, const char *header)
{
	char *path AUTOFREE = sentence("%s/%s", getenv("MVBENCH_HOME"), header);
	char *text AUTOFREE = text_read(path), *rest = text;
	bool comment = false, define = false;
	for (char *line; (line = strsep(&rest, "\n"));) {
		size_t n = strlen(line);
		bool skip = comment || define || strchr("\t #/{}", *line) || !*line ||
			    strncmp(line, "static", 6) == 0 || strncmp(line, "typedef", 7) == 0;
		char *open = strchr(line, '('), *name = open;
		while (name && name > line &&
		       (strchr("_", name[-1]) || (name[-1] >= 'a' && name[-1] <= 'z')))
			name--;
		if (!skip && open && name < open)
			fprintf(f, "\t(void *)%.*s,\n", (int)(open - name), name);
		if (strstr(line, "/*"))
			comment = true;
		if (strstr(line, "*/"))
			comment = false;
		define = n > 0 && line[n - 1] == '\\';
	}
}

TEST(every_contract_function_exists)
{
	static const char *const header[] = {"mvbench.h", "workloads/net.h", "workloads/datasets.h",
					     "strategies/exchange.h"};
	struct text t;
	if (lacks_something())
		return;
	FILE *f = text_open(&t);
	fputs("#include \"workloads/datasets.h\"\n#include \"strategies/exchange.h\"\n"
	      "#pragma GCC diagnostic ignored \"-Wpedantic\"\n"
	      "void *const all[] = {\n",
	      f);
	for (size_t i = 0; i < COUNT(header); i++)
		put_functions(f, header[i]);
	fputs("\t(void *)&dataset_cubes, (void *)&dataset_fashion_mnist,\n"
	      "\t(void *)&dataset_fashion_mnist_32, (void *)&dataset_cifar10_or_fashion,\n"
	      "\t(void *)&linear_whole, (void *)&linear_split, (void *)updater_choices,\n"
	      "\t(void *)strategies, (void *)workloads, (void *)optimizers};\n"
	      "static void step(struct worker *w)\n{\n\tif (!all[w->step % 100])\n"
	      "\t\tpanic(__FILE__, __LINE__, \"none\");\n\tlocal_step(w, 1);\n}\n"
	      "static const struct strategy every = {.plugin = {.name = \"every\", .summary = "
	      "\"each function\"}, .step = step};\nMVBENCH_PLUGIN(.strategy = &every);\n",
	      f);
	char *text AUTOFREE = text_close(&t);
	int n = 0;
	for (const char *at = text; (at = strstr(at, "(void *)")); at++)
		n++;
	ck_assert_msg(n > 120, "%d functions", n);
	ck_assert_ptr_nonnull(strstr(text, "(void *)net_places,"));
	ck_assert_ptr_nonnull(strstr(text, "(void *)vec_gemm,"));
	folder_text("every.c", text);
	must_do("mvbench run --workload=softmax --epochs=1 --strategy=./every.c");
	must_do("mvbench run --workload=softmax --epochs=1 --strategy=./every.c --platform=sim "
		"--sim.platform=ethernet_10g --sim.step-time=2ms");
}

/* A round that drops a push: the optimiser's moments are then those after the last push that
 * counted, and its bias correction is of as many steps. The strategy has no flush. */
static const char backup_text[] =
	"#include \"strategies/exchange.h\"\n"
	"#include <string.h>\n"
	"enum { P = 7850 };\n"
	"struct opts {\n\tstruct updater_opts updater;\n};\n"
	"#define OWNER struct opts\n"
	"static const struct option options[] = {UPDATER_OPTIONS, {0}};\n"
	"static struct table_terms terms(const struct run *run, const void *opts)\n{\n"
	"\tstruct table_terms t = exchange_terms(run, opts);\n"
	"\tt.rounds = true;\n\tt.backup = 1;\n\treturn t;\n}\n"
	"static void step(struct worker *w)\n{\n"
	"\tfloat before[P], after[P];\n"
	"\tint64_t steps = w->age;\n"
	"\tvec_get(w->moment[1], before);\n"
	"\texchange_step(w);\n"
	"\tvec_get(w->moment[1], after);\n"
	"\tbool dropped = memcmp(before, after, sizeof before) == 0;\n"
	"\tif (w->age != steps + !dropped)\n"
	"\t\tpanic(__FILE__, __LINE__, \"%lld\", (long long)(w->age));\n"
	"\tworker_report(w, \"dropped\", dropped);\n}\n"
	"static const struct strategy s = {.plugin = {.name = \"backup\", .summary = \"s\", "
	".options = options, .opts_size = sizeof(struct opts)}, .terms = terms, .init = "
	"exchange_init, .step = step, .rejoin = exchange_rejoin, TABLE_SLOTS};\n"
	"MVBENCH_PLUGIN(.strategy = &s);\n";

TEST(bias_correction_counts_the_steps_of_the_moments, 2)
{
	static const char *const deal[] = {"static", "dynamic"};
	if (lacks_something())
		return;
	folder_text("backup.c", backup_text);
	char *command AUTOFREE = sentence(
		"mvbench run --workload=softmax --batch=4 --epochs=2 --strategy=./backup.c "
		"--workers=3 --servers=1 --optimizer=adamw --lr=1e-3 --momentum=0 "
		"--speed=2:0.3 --deal=%s --barrier-every=1 --platform=sim "
		"--sim.platform=ethernet_10g --sim.step-time=2ms",
		deal[_i]);
	must_do(command);
	answers("SELECT max(value) > 0 AND max(value) < 0.5 FROM epoch_value WHERE name = "
		"'dropped'",
		"1");
}

/* ---- Huge gradients ------------------------------------------------------ */

/* A net whose gradients are 2^exponent times their size. */
static const char huge_text[] =
	"#include \"workloads/datasets.h\"\n"
	"#include <math.h>\n"
	"struct opts {\n\tdouble exponent;\n};\n"
	"#define OWNER struct opts\n"
	"static const struct option options[] = {OPTION(exponent, REAL, \"exponent\", \"0\", "
	"\"e\"), {0}};\n"
	"static void init(struct worker *w, const struct data *sample)\n{\n"
	"\tstruct net *net = net_new(w, sample);\n"
	"\tnet_linear(net, 8, INIT_HE);\n\tnet_relu(net);\n"
	"\tnet_linear(net, sample->classes, INIT_HE);\n\tnet_finish(net, LOSS_XENT);\n}\n"
	"static void gradient(struct worker *w)\n{\n"
	"\tconst struct opts *o = w->model->opts;\n\tnet_gradient(w);\n"
	"\tvec_scale(w->grad, ldexpf(1, (int)o->exponent));\n}\n"
	"static const struct workload huge = {.plugin = {.name = \"huge\", .summary = \"huge\", "
	".options = options, .opts_size = sizeof(struct opts)}, .dataset = "
	"&dataset_fashion_mnist, .init = init, .load = net_load, .gradient = gradient, "
	".evaluate = net_evaluate, .split = net_split, .places = net_places, .fini = "
	"net_fini};\nMVBENCH_PLUGIN(.workload = &huge);\n";

#define HUGE \
	"mvbench run --workload=./huge.c --epochs=1 --lr=0.1 --batch=20 --clip=0.01 --workers=2 " \
	"--platform=sim --sim.platform=ethernet_10g --sim.step-time=2ms --momentum=0 "

/* A power of two changes no digit of a clipped step; that of a model group sums its squares. */
TEST(clip_holds_for_gradients_of_any_length, LISTED(strategies))
{
	const char *name = strategies[_i]->plugin.name;
	static const int exponent[] = {20, 63, 70, 120};
	if (lacks_something())
		return;
	folder_text("huge.c", huge_text);
	for (size_t i = 0; i < COUNT(exponent); i++) {
		char *command AUTOFREE =
			sentence(HUGE "--strategy=%s %s --huge.exponent=%d", name,
				 strcmp(name, "serial") == 0   ? "--workers=1"
				 : strcmp(name, "hybrid") == 0 ? "--workers=4 --hybrid.group=2"
				 : strcmp(name, "asgd") == 0   ? "--asgd.updater=sgd"
							       : "",
				 exponent[i]);
		must_do(command);
	}
	answers("SELECT count(*), count(DISTINCT test_loss), min(abs(test_loss - (SELECT "
		"test_loss FROM epoch WHERE epoch = 0))) > 0.001 FROM epoch WHERE epoch = 1",
		"4|1|1");
}

/* The factors of powersgd are products of the gradient, or of what it has lost, with itself. */
TEST(powersgd_trains_with_gradients_of_any_length)
{
	static const int exponent[] = {20, 33, 70, 100};
	if (lacks_something())
		return;
	folder_text("huge.c", huge_text);
	for (size_t i = 0; i < COUNT(exponent); i++) {
		char *command AUTOFREE =
			sentence(HUGE "--strategy=allreduce --codec=powersgd --huge.exponent=%d",
				 exponent[i]);
		must_do(command);
	}
	answers("SELECT count(*), count(DISTINCT test_loss), min(abs(test_loss - (SELECT "
		"test_loss FROM epoch WHERE epoch = 0))) > 0.001 FROM epoch WHERE epoch = 1",
		"4|1|1");
}

/* A message without room for them (fp16) makes the run diverge. None hides them as zeros. */
TEST(codecs_lose_no_gradient_for_its_length, LISTED(codecs))
{
	static const int exponent[] = {20, 70, 100};
	if (lacks_something())
		return;
	folder_text("huge.c", huge_text);
	for (size_t i = 0; i < COUNT(exponent); i++) {
		char *command AUTOFREE = sentence(HUGE "--strategy=allreduce --codec=%s "
						       "--huge.exponent=%d",
						  codecs[_i]->plugin.name, exponent[i]);
		int status = shell(command);
		ck_assert_msg(status == 0 || (status == 3 && strstr(out, "diverged")),
			      "%s: status %d: %s", command, status, out);
	}
	answers("SELECT count(*), count(*) FILTER (WHERE status = 'done' AND abs(test_loss - ("
		"SELECT test_loss FROM epoch WHERE run_id = id AND epoch = 0)) <= 0.001), count(*) "
		"FILTER (WHERE status = 'diverged' AND codec <> 'fp16') FROM run_summary",
		"3|0|0");
}

TEST(infinite_gradient_ends_the_run_as_diverged, LISTED(optimizers))
{
	const struct optimizer *o = optimizers[_i];
	if (lacks_something())
		return;
	folder_text("huge.c", huge_text);
	char *command AUTOFREE =
		sentence(HUGE "--workers=1 --strategy=serial --optimizer=%s%s --huge.exponent=128",
			 o->plugin.name, o->momentum ? " --momentum=0.9" : "");
	ck_assert_msg(shell(command) == 3 && strstr(out, "diverged"), "%s", out);
	answers("SELECT status FROM run", "diverged");
}

/* A gradient that is computed on the host takes the time of a step, as one of a device does. Such
 * models cannot be split. */
TEST(simulated_host_workload_takes_its_steps_time, LISTED(strategies))
{
	const char *name = strategies[_i]->plugin.name;
	if (lacks_something() || strategies[_i]->model_workers)
		return;
	folder_text("huge.c", huge_text);
	must_do("sed -i 's/net_gradient(w);/float g[6370]; vec_get(w->param, g); "
		"vec_put(w->grad, g); "
		"for (size_t i = w->model->layers; i-- > 0;) layer_ready(w, i);/' huge.c; "
		"mkdir host; "
		"sed 's/\\.init = /.host = true, &/' huge.c >host/huge.c");
	for (int host = 0; host < 2; host++) {
		char *command AUTOFREE = sentence(
			"mvbench run --workload=./%shuge.c --epochs=2 --batch=20 --workers=%d "
			"--strategy=%s --platform=sim --sim.platform=ethernet_10g "
			"--sim.step-time=2ms --sim.train=false",
			host ? "host/" : "", strcmp(name, "serial") == 0 ? 1 : 2, name);
		must_do(command);
	}
	char *steps AUTOFREE = sentence(
		"SELECT count(*), min(seconds) >= 0.9 * 0.002 * %d, "
		"(SELECT count(DISTINCT s) FROM (SELECT sum(seconds) AS s FROM epoch GROUP BY "
		"run_id)) FROM epoch WHERE epoch > 0",
		strcmp(name, "serial") == 0 ? 30 : 15);
	answers(steps, "4|1|1");
}

static const char version_text[] = "#include \"mvbench.h\"\nstatic void step(struct worker *w)\n"
				   "{\n\tlocal_step(w, 1);\n}\nstatic const struct strategy old = "
				   "{.plugin = {.name = \"old\", .summary = \"old\"}, .step = "
				   "step};\n#undef CONTRACT_VERSION\n#define CONTRACT_VERSION 7\n"
				   "MVBENCH_PLUGIN(.strategy = &old);\n";

TEST(plugin_of_another_version_is_refused)
{
	if (lacks_something())
		return;
	folder_text("old.c", version_text);
	refused("mvbench run --strategy=./old.c",
		"it was compiled for version 7 of the contract (mvbench.h), and this mvbench has "
		"version ");
	must_do("sed -i 's/define CONTRACT_VERSION 7/define CONTRACT_VERSION 4\\n#undef "
		"CONTRACT_BYTES\\n#define CONTRACT_BYTES 1/' old.c");
	refused("mvbench run --strategy=./old.c", "other headers than this mvbench's");
}

/* Common words that the contract's headers do not take. */
static const char own_names_text[] =
	"#define MAX 4\n#define MIN(a, b) ((a) < (b) ? (a) : (b))\n#include \"mvbench.h\"\n"
	"enum { SUM, MEAN, MEDIAN };\nenum stream { UP, DOWN };\n"
	"static void step(struct worker *w)\n{\n\tlocal_step(w, 1);\n"
	"\tif (MIN(MEAN, MAX) > SUM && DOWN > UP)\n"
	"\t\tcomm_allreduce(w->data_group, w->param, COMM_MEAN);\n}\n"
	"static const struct strategy own = {.plugin = {.name = \"own\", .summary = \"own\"}, "
	".step = step};\nMVBENCH_PLUGIN(.strategy = &own);\n";

TEST(common_names_are_free_for_plugins)
{
	if (lacks_something())
		return;
	folder_text("own.c", own_names_text);
	must_do("mvbench run --workload=softmax --epochs=1 --strategy=./own.c --workers=2");
	answers("SELECT count(*) FROM run WHERE strategy = 'own' AND status = 'done'", "1");
}

/* ---- Files that are not plug-ins ----------------------------------------- */

static const struct mistake {
	const char *file, *text; /* NULL: as it is */
	const char *command, *says;
} mistakes[] = {
	{"bad.c", "#include \"mvbench.h\"\nint x = \"\n", "mvbench run --strategy=./bad.c",
	 "bad.c:2:9: "},
	{"bad.c", "#include \"mvbench.h\"\nint x = \"\n", "mvbench run --strategy=./bad.c",
	 "mvbench: --strategy=./bad.c: it does not compile: see the compiler's messages above\n"},
	{"bad.c", "#include \"mvbench.h\"\nint x = \"\n", "mvbench help ./bad.c",
	 "mvbench: ./bad.c: it does not compile"},
	{"none.c", "int x;\n", "mvbench run --strategy=./none.c",
	 "it is not a plug-in: it has no MVBENCH_PLUGIN()"},
	{"calls.c",
	 "#include \"mvbench.h\"\nvoid frob(void);\nstatic void step(struct worker *w)\n{\n"
	 "\tfrob();\n\tlocal_step(w, 1);\n}\nstatic const struct strategy s = {.plugin = {.name = "
	 "\"calls\", .summary = \"calls\"}, .step = step};\nMVBENCH_PLUGIN(.strategy = &s);\n",
	 "mvbench run --strategy=./calls.c", "undefined symbol: frob"},
	{"idle.c",
	 "#include \"mvbench.h\"\nstatic const struct strategy s = {.plugin = {.name = \"idle\", "
	 ".summary = \"idle\"}};\nMVBENCH_PLUGIN(.strategy = &s);\n",
	 "mvbench run --strategy=./idle.c", "strategy idle lacks .step"},
	{NULL, NULL,
	 "sed 's/\"doubling\"/\"asgd\"/' doubling.c >other.c; mvbench run "
	 "--strategy=./other.c",
	 "mvbench has a plug-in asgd itself"},
	{NULL, NULL, "mvbench run --strategy=./gone.c",
	 "mvbench: --strategy=./gone.c: No such file or directory\n"},
	{NULL, NULL, "mvbench run --strategy=./spirals.c",
	 "--strategy=./spirals.c: it has no strategy; give it as --workload=./spirals.c"},
	{NULL, NULL, "mvbench run --strategy=./study.txt",
	 "give a name, or a file that ends in .c, .so or .py"},
	{NULL, NULL, "CC=no-such-cc mvbench run --strategy=./doubling.c",
	 "there is no C compiler here: install gcc and libc6-dev, set CC to one, or give a "
	 "compiled plug-in (.so)\n"},
	{NULL, NULL, "mvbench run --strategy=./doubling.c --doubling.mots=3",
	 "--doubling.mots: there is no such option; did you mean --doubling.most?"},
	{NULL, NULL, "mvbench run --strategy=./doubling.c --doubling.most=0",
	 "--doubling.most=0: give a whole number from 1 to 1000000000"},
	{NULL, NULL, "mvbench run --strategy=./doubling.c --doubling.source=0",
	 "has another source"},
	{"bad.ini", "[a]\nepochs = 1\nstrategy = asgd, ./gone.c\n", "mvbench sweep bad.ini",
	 "bad.ini:3: --strategy=./gone.c: No such file or directory\n"},
};

TEST(file_without_a_plugin_is_refused, COUNT(mistakes))
{
	const struct mistake *m = &mistakes[_i];
	if (lacks_something())
		return;
	if (m->file)
		folder_text(m->file, m->text);
	refused(m->command, m->says);
	ck_assert_int_ne(shell("test -e mvbench.db"), 0);
	must_do("test -z \"$(ls cache/mvbench/plugins 2>/dev/null | grep part)\"");
}

/* ---- A failure of a rank ------------------------------------------------- */

static const char breaks_text[] =
	"#include \"mvbench.h\"\nstatic void step(struct worker *w)\n{\n"
	"\tif (w->rank == 1 && w->step == 1)\n"
	"\t\tpanic(__FILE__, __LINE__, \"no such lamp\");\n\tlocal_step(w, 1);\n}\n"
	"static const struct strategy breaks = {.plugin = {.name = \"breaks\", .summary = "
	"\"breaks\"}, .step = step};\nMVBENCH_PLUGIN(.strategy = &breaks);\n";

/* What the rank says becomes the reason in the row, not what mpirun makes of it. */
TEST(recorded_reason_is_what_the_rank_says)
{
	if (lacks_something())
		return;
	folder_text("breaks.c", breaks_text);
	for (int own = 0; own < 2; own++) {
		char *command AUTOFREE = sentence(
			"export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1; "
			"%smvbench run --workload=softmax --epochs=1 --workers=2 "
			"--strategy=./breaks.c",
			own ? "" : "mpirun --quiet --oversubscribe --bind-to none -n 2 ");
		ck_assert_int_ne(shell(command), 0);
		ck_assert_msg(strstr(out, "breaks.c:5: no such lamp"), "%s", out);
	}
	answers("SELECT status, reason LIKE 'worker 1 on %breaks.c:5: no such lamp' FROM run "
		"WHERE id = 2",
		"failed|1");
}

/* ---- What is recorded, cached and compared ------------------------------- */

#define RUN "mvbench run --workload=./spirals.c --epochs=1 --strategy=./doubling.c "

TEST(changed_source_is_another_configuration)
{
	if (lacks_something())
		return;
	must_do(RUN);
	must_do(RUN);
	must_do("test $(sqlite3 mvbench.db \"SELECT value FROM run_option WHERE run_id = 1 AND "
		"part = 'strategy' AND name = 'source'\") = $(sha256sum <doubling.c | cut -c-64)");
	must_do("echo >>doubling.c; " RUN);
	answers("SELECT count(DISTINCT config_hash) FROM run", "2");
	answers("SELECT count(DISTINCT config_hash) FROM run WHERE id < 3", "1");
	answers("SELECT count(DISTINCT config_key) FROM run_summary", "2");
	/* older sources can be selected, even if the file has changed or is gone */
	must_do("rm doubling.c; s=$(sqlite3 mvbench.db \"SELECT value FROM run_option WHERE run_id "
		"= 1 AND part = 'strategy' AND name = 'source'\"); mvbench show 1 | grep -q "
		"\"strategy='doubling#$s'\" && mvbench show 1 | grep -q \"^doubling.source *$s\" "
		"&& mvbench compare 1 3 | grep -q doubling.source");
}

/* A data set of 8 + 8 points, which it reads from a file. */
static const char points_text[] =
	"#include \"workloads/datasets.h\"\n#include <stdio.h>\n#include <stdlib.h>\n"
	"static char *probe(const struct run *run, struct data *train, struct data *test)\n{\n"
	"\t(void)run;\n\t*train = *test = (struct data){.n = 8, .features = 1, .classes = 2, "
	".value_size = sizeof(float)};\n\treturn NULL;\n}\n"
	"static char *load(const struct run *run, struct data *train, struct data *test)\n{\n"
	"\tstruct data *part[] = {train, test};\n\tFILE *f = fopen(\"points.csv\", \"r\");\n"
	"\tif (!f)\n\t\treturn sentence(\"points.csv is missing\");\n\tprobe(run, train, test);\n"
	"\tfor (int k = 0; k < 2; k++) {\n"
	"\t\tfloat *x = malloc(8 * sizeof *x), *y = malloc(8 * sizeof *y);\n"
	"\t\tfor (int i = 0; i < 8; i++)\n\t\t\tif (fscanf(f, \"%f,%f\", &x[i], &y[i]) != 2)\n"
	"\t\t\t\treturn sentence(\"points.csv ends early\");\n"
	"\t\tpart[k]->floats = x;\n\t\tpart[k]->target = y;\n\t}\n\tfclose(f);\n"
	"\treturn NULL;\n}\n"
	"static const struct dataset points = {.name = \"points\", .summary = \"p\", "
	".probe = probe, .load = load, .unload = data_unload};\n"
	"static void init(struct worker *w, const struct data *sample)\n{\n"
	"\tstruct net *net = net_new(w, sample);\n\tnet_linear(net, sample->classes, INIT_HE);\n"
	"\tnet_finish(net, LOSS_XENT);\n}\n"
	"static const struct workload w = {.plugin = {.name = \"points\", .summary = \"p\"}, "
	".dataset = &points, .init = init, .load = net_load, .gradient = net_gradient, "
	".evaluate = net_evaluate, .fini = net_fini};\nMVBENCH_PLUGIN(.workload = &w);\n";

/* One number of the file changes, in the test rows. The plug-in is the same; the cell is not. */
TEST(changed_file_of_a_plugin_is_another_cell)
{
	if (lacks_something())
		return;
	folder_text("points.c", points_text);
	folder_text("job.ini", "[a]\nworkload = ./points.c\nbatch = 4\nepochs = 1\n");
	must_do("seq 16 | sed 's/$/,1/' >points.csv; mvbench sweep job.ini; "
		"mvbench sweep job.ini --dry-run | grep '0 to run, 1 finished'");
	must_do("sed -i 's/^16,/17,/' points.csv; "
		"mvbench sweep job.ini --dry-run | grep '1 to run, 0 finished' && "
		"mvbench sweep job.ini");
	answers("SELECT count(*), count(DISTINCT data_hash), count(DISTINCT config_hash), "
		"min(length(data_hash)) FROM run",
		"2|2|2|16");
	answers("SELECT count(DISTINCT config_key) FROM run_summary", "2");
	must_do("sed -i 's/^17,/16,/' points.csv; "
		"mvbench sweep job.ini --dry-run | grep '0 to run, 1 finished'");
}

/* The database keeps the text; an import takes it along, and compiles nothing. */
TEST(database_keeps_the_sources_of_plugins)
{
	if (lacks_something())
		return;
	must_do("sed 's/\"doubling\"/\"other\"/' doubling.c >part.h; "
		"echo '#include \"part.h\"' >other.c");
	must_do("mvbench run --workload=./spirals.c --epochs=1 --strategy=./other.c --workers=2");
	must_do("mvbench run --workload=./spirals.c --epochs=2 --strategy=./other.c --workers=2");
	answers("SELECT count(*), count(DISTINCT hash) FROM source", "3|2");
	must_do("mvbench show 1 | grep -q 'kept sources .*other.c, part.h'");
	must_do("show=$(mvbench show 1 | grep '^mvbench show 1 --db=mvbench.db --source='); "
		"$show | grep -cE 'part.h|MVBENCH_PLUGIN'");
	must_do("mvbench import mvbench.db --db=far.db && rm -rf cache && "
		"for f in other.c part.h spirals.c; do "
		"mvbench show 1 --db=far.db --source=$f | cmp - $f || exit 1; done && "
		"! ls cache/mvbench/plugins/*.so 2>/dev/null");
	refused("mvbench show 1 --db=far.db --source=none.c", "has no such file");
}

static void count_compiled(const char *want)
{
	must_do("ls cache/mvbench/plugins | grep -c 'so$'");
	ck_assert_str_eq(strtok(out, "\n"), want);
}

/* A compiler that appends a line to the file compiled. */
static void put_compiler(void)
{
	folder_text("counting", "#!/bin/sh\necho one >>compiled\nexec cc \"$@\"\n");
	must_do("chmod +x counting");
}

TEST(plugin_is_compiled_once)
{
	if (lacks_something())
		return;
	put_compiler();
	/* several runs at once, each with two ranks that load it too */
	must_do("export CC=./counting; for i in 1 2 3; do " RUN
		"--workers=2 --db=$i.db & p=\"$p $!\"; done; "
		"for i in $p; do wait $i || exit; done");
	must_do("wc -l <compiled");
	ck_assert_str_eq(strtok(out, "\n"), "2");
	count_compiled("2");
	/* a file that it includes from its folder is a part of it */
	must_do("export CC=./counting; sed -i 's/#include \"mvbench.h\"/&\\n#include "
		"\"own.h\"/' doubling.c; echo >own.h; " RUN "&& echo >>own.h; " RUN);
	must_do("wc -l <compiled");
	ck_assert_str_eq(strtok(out, "\n"), "4");
}

/* The compiler reads the edited file: its copy must not have the name of the earlier source. */
TEST(edit_during_compilation_is_another_source)
{
	if (lacks_something())
		return;
	folder_text("editing", "#!/bin/sh\ncase \"$*\" in *doubling*) [ -e once ] || echo "
			       ">>doubling.c; : >once;; esac\nexec cc \"$@\"\n");
	must_do("cp doubling.c before.c; chmod +x editing; CC=./editing " RUN
		"&& ls cache/mvbench/plugins");
	char *made AUTOFREE = must(strdup(out));
	must_do("sha256sum <before.c | cut -c-64");
	out[strcspn(out, "\n")] = '\0';
	ck_assert_msg(!strstr(made, out), "%s is in %s", out, made);
	must_do("sha256sum <doubling.c | cut -c-64");
	out[strcspn(out, "\n")] = '\0';
	ck_assert_msg(strstr(made, out), "%s is not in %s", out, made);
}

TEST(running_plugin_ignores_changes_of_its_file)
{
	if (lacks_something())
		return;
	must_do(RUN "--dry-run");
	must_do("h=$(sha256sum <doubling.c | cut -c-64); echo 'spoilt' >>doubling.c; mvbench run "
		"--workload=./spirals.c --epochs=1 --strategy=./doubling.c#$h");
	refused("h=$(echo | sha256sum | cut -c-64); mvbench run --strategy=./spirals.c#$h",
		"the file has changed, or differs on this machine");
}

TEST(shared_object_is_accepted_as_plugin)
{
	if (lacks_something())
		return;
	must_do("cc -O2 -shared -fPIC -I \"$MVBENCH_HOME\" doubling.c -o mine.so && rm doubling.c "
		"&& CC=no-such-cc mvbench run --workload=softmax --epochs=1 --workers=2 "
		"--strategy=./mine.so && CC=no-such-cc mvbench run --workload=softmax --epochs=1 "
		"--workers=2 --strategy=mine.so --platform=sim --sim.platform=ethernet_10g "
		"--sim.step-time=2ms");
	answers("SELECT count(*), count(DISTINCT test_loss) FROM epoch JOIN run ON id = run_id "
		"WHERE strategy = 'doubling' AND epoch = 1",
		"2|1");
	must_do("test $(sqlite3 mvbench.db \"SELECT value FROM run_option WHERE run_id = 1 AND "
		"part = 'strategy' AND name = 'source'\") = $(sha256sum <mine.so | cut -c-64)");
}

/* Plug-ins include only files that `make install` puts below share/mvbench. */
TEST(installed_mvbench_finds_the_plugin_headers)
{
	if (lacks_something())
		return;
	must_do("mkdir bin && cp $b/mvbench bin && (cd \"$MVBENCH_HOME\" && sed -n 's/^CONTRACT := "
		"//p' Makefile | tr ' ' '\\n') | while read -r f; do install -D "
		"\"$MVBENCH_HOME/$f\" "
		"share/mvbench/$f || exit; done");
	must_do("unset MVBENCH_HOME; bin/mvbench run --workload=./spirals.c --epochs=1 "
		"--strategy=./doubling.c --optimizer=./damped.c");
	must_do("rm share/mvbench/workloads/net.h");
	ck_assert_int_eq(shell("unset MVBENCH_HOME; bin/mvbench run --workload=./spirals.c"), 2);
	refused("unset MVBENCH_HOME; rm -r share; bin/mvbench run --workload=./spirals.c",
		"the headers of plug-ins did not come with this mvbench");
}

/* --check-promises names the user's optimiser, not the strategy of the program that calls it. */
TEST(optimizer_that_computes_on_the_host_is_named)
{
	if (lacks_something())
		return;
	folder_text(
		"hosted.c",
		"/* hosted.c - w -= lr g, with a copy on the host */\n"
		"#include \"mvbench.h\"\n"
		"static void step(struct worker *w, const struct param_group *p, float scale, "
		"float decay)\n"
		"{\n"
		"\tstatic float copy[1 << 16];\n"
		"\t(void)decay;\n"
		"\tvec_get(p->grad, copy);\n"
		"\tvec_put(p->grad, copy);\n"
		"\tvec_axpy(p->param, -(float)w->lr * scale, p->grad);\n"
		"}\n"
		"static int moments(const struct run *run, const void *opts)\n"
		"{\n\t(void)run, (void)opts;\n\treturn 0;\n}\n"
		"static const struct optimizer hosted = {.plugin = {.name = \"hosted\", .summary "
		"= \"SGD\"}, .moments = moments, .step = step};\n"
		"MVBENCH_PLUGIN(.optimizer = &hosted);\n");
#define HOSTED \
	"mvbench run --workload=./spirals.c --epochs=1 --strategy=serial --optimizer=./hosted.c"
	must_do(HOSTED);
	int status = shell(HOSTED " --check-promises");
	ck_assert_msg(status != 0 &&
			      strstr(out, "optimizer hosted: its step reads or writes vectors on "
					  "the host: ") &&
			      !strstr(out, "bug"),
		      "status %d: %s", status, out);
}

/* The workers of the replay get the recorded options and the plug-in to load. */
TEST(run_with_plugins_is_replayed)
{
	if (lacks_something())
		return;
	must_do("mvbench run --workload=./spirals.c --epochs=1 --strategy=asgd "
		"--workers=2 --record "
		"--optimizer=./damped.c");
	must_do("mvbench run --platform=sim --sim.replay=1 --sim.platform=ethernet_10g "
		"--sim.step-time=2ms");
	answers("SELECT count(DISTINCT test_loss) || count(*) FROM epoch WHERE epoch = 1", "12");
}

TEST(crash_in_a_plugin_ends_the_run)
{
	if (lacks_something())
		return;
	must_do("sed -i 's/^\\tlocal_step(w, 1);.*/\\tif (w->step == 9 \\&\\& "
		"w->rank == 1)\\n\\t\\t"
		"__builtin_trap();\\n&/' doubling.c");
	ck_assert_int_eq(shell(RUN "--workers=2"), 1);
	ck_assert_msg(strstr(out, "worker 1") && strstr(out, "was killed by signal"), "%s", out);
	answers("SELECT status FROM run", "failed");
}

/* A constructor runs when the file is loaded: it leaves a file. */
#define SPY \
	"printf '#include <stdio.h>\n__attribute__((constructor)) static void f(void) " \
	"{ fclose(fopen(\"spied\", \"w\")); }\n' >spy.c; "

/* Commands that read a database, a baseline or an import load no plug-in that it names. */
TEST(name_in_a_file_loads_no_code, 5)
{
	static const char *const named[][2] = {{"strategy", "./spy.c"},
					       {"workload", "./spy.c"},
					       {"optimizer", "./spy.c"},
					       {"codec", "./spy.c"},
					       {"workload", "./spy.py"}};
	static const char *const reads[] = {
		"show 1",
		"show 2",
		"compare 1 2",
		"table",
		"history",
		"export --out=e",
		"report --out=r.html",
		"spread 1",
		"run --platform=sim --sim.platform=ethernet_10g --sim.replay=1 --strategy=asgd",
		"import mvbench.db --db=other.db",
		"check --against=b --rerun=never",
		"check --import=b.jsonl",
		"advise --workload=softmax --workers=2 --sim.platform=ethernet_10g "
		"--sim.step-time=1ms --train=0s",
	};
	const char *option = named[_i][0], *file = named[_i][1];
	must_do(SPY "echo \"open('spied', 'w')\" >spy.py; "
		    "for seed in 1 2 3; do mvbench run --workload=softmax --strategy=serial "
		    "--optimizer=lion --train-rows=60 --epochs=1 --seed=$seed; done; "
		    "mvbench check --save=b; "
		    "mvbench check --against=b --export=b.jsonl");
	char *change AUTOFREE = sentence(
		"sqlite3 mvbench.db \"UPDATE run SET %s = '%s', sim_replay = 2 * (id = 2); "
		"UPDATE baseline SET options = json_set(options, '$.%s', '%s')\"; "
		"sed -i 's|\"%s\":\"[a-z]*\"|\"%s\":\"%s\"|; t; s|\"options\":{|&\"%s\":\"%s\",|' "
		"b.jsonl; grep -q spy b.jsonl",
		option, file, option, file, option, option, file, option, file);
	must_do(change);
	for (size_t i = 0; i < COUNT(reads); i++) {
		char *command AUTOFREE = sentence("mvbench %s; test ! -e spied", reads[i]);
		must_do(command);
	}
	refused("mvbench check --against=b --rerun=always",
		"a file names this plug-in, and you have not: mvbench compiles and loads only "
		"what you type. mvbench help ./spy");
	must_do("test ! -e spied");
	/* the test can fail: a name that is typed is loaded */
	char *typed AUTOFREE = sentence("mvbench help %s; test -e spied", file);
	must_do(typed);
}

/* A check makes its runs again. It asks for a plug-in that only the baseline names, and does not
 * make it; once it is typed, the cache has it. */
TEST(check_asks_for_the_plugin_of_a_baseline)
{
	static const char *const rerun[] = {"", " --rerun=always", " --seeds=4..6"};
	if (lacks_something())
		return;
	must_do("for seed in 1 2 3; do mvbench run --workload=softmax --strategy=./doubling.c "
		"--workers=2 --train-rows=60 --epochs=1 --seed=$seed; done; "
		"mvbench check --save=b; rm -r cache; printf '#!/bin/sh\\ntouch compiled\\nexec cc "
		"\"$@\"\\n' >cc.sh; chmod +x cc.sh");
	for (size_t i = 0; i < COUNT(rerun); i++) {
		char *check AUTOFREE = sentence("CC=./cc.sh mvbench check --against=b%s", rerun[i]);
		refused(check, "doubling");
		ck_assert_msg(strstr(out, "no longer in your cache folder: give the file") ||
				      strstr(out, "a file names this plug-in, and you have not"),
			      "%s: %s", check, out);
		must_do("test ! -e compiled");
	}
	must_do("mvbench help ./doubling.c; mvbench check --against=b");
}

/* A job file that is only looked at is not trusted, unless its plug-ins are known here. */
TEST(unrun_job_file_loads_no_code)
{
	must_do(SPY "printf '[a]\nworkload = softmax\nstrategy = ./spy.c\n' >study.ini");
	refused("mvbench sweep study.ini --dry-run", "mvbench help ./spy.c");
	refused("mvbench submit study.ini --dry-run", "mvbench help ./spy.c");
	must_do("test ! -e spied");
	refused("mvbench sweep study.ini", "not a plug-in");
	must_do("test -e spied");
}

/* A compiler that leaves a file. */
#define WATCHED_CC \
	"printf '#!/bin/sh\\ntouch compiled\\nexec cc \"$@\"\\n' >cc.sh; chmod +x cc.sh; "

/* The compiler hands a file that is not C to the linker, which obeys what it says. A hash of the
 * text before a byte 0 can stand in the same file. */
TEST(typed_file_is_no_plugin_unless_its_option_names_one)
{
	static const char *const words[] = {
		"sweep study.ini --dry-run", "submit study.ini --dry-run",
		"tune study.ini --dry-run",  "sweep study.ini",
		"spread 1 --db=r.c",         "show 1 --db=r.c",
		"show 1 --db=r.db",          "check --against=./spy.c --db=r.db",
	};
	if (lacks_something())
		return;
	must_do(SPY WATCHED_CC
		"cc -fPIC -c spy.c && printf ';INPUT(spy.o) SEARCH_DIR(\"' >head && "
		"h=$(sha256sum <head | cut -d' ' -f1) && (cat head; printf "
		"'\\0\\n[a]\\nworkload = softmax\\nstrategy = study.ini#%s\\n;\")\\n' $h) "
		">study.ini && cp study.ini both.c");
	must_do("mvbench run --workload=softmax --strategy=serial --train-rows=60 --epochs=1 && "
		"cp mvbench.db r.c && cp mvbench.db r.db && h=$(printf 'SQLite format 3' | "
		"sha256sum | cut -d' ' -f1) && sqlite3 r.c \"UPDATE run SET strategy = "
		"'r.c#$h'\" && sqlite3 r.db \"UPDATE run SET strategy = './spy.c'\"");
	for (size_t i = 0; i < COUNT(words); i++) {
		char *command AUTOFREE = sentence(
			"export CC=./cc.sh; mvbench %s; test ! -e spied && test ! -e compiled",
			words[i]);
		must_do(command);
	}
	refused("mvbench sweep study.ini", "is no longer in your cache folder");
	refused("mvbench run --strategy=./study.ini", "give a name, or a file that ends in .c");
	refused("CC=./cc.sh mvbench help ./both.c", "both.c is not C: it has a byte 0");
	must_do("test ! -e spied && test ! -e compiled");
	/* without the byte it is compiled, as C and nothing else */
	must_do("printf 'INPUT(spy.o)\\n' >script.c");
	refused("CC=./cc.sh mvbench help ./script.c", "it does not compile");
	must_do("test ! -e spied && test -e compiled");
}

/* A pipe would be waited for. */
TEST(plugin_is_a_plain_file)
{
	if (lacks_something())
		return;
	must_do("mkfifo pipe.c && printf '[a]\\nworkload = softmax\\nstrategy = ./pipe.c\\n' "
		">pipe.ini");
	refused("timeout 20 mvbench help ./pipe.c", "pipe.c is not a plain file");
	refused("timeout 20 mvbench sweep pipe.ini --dry-run", "pipe.c is not a plain file");
	must_do("mvbench run --workload=softmax --strategy=serial --train-rows=60 --epochs=1 && "
		"sqlite3 mvbench.db \"UPDATE run SET strategy = './pipe.c'\"");
	must_do("timeout 20 mvbench show 1");
}

/* The command in the message can be typed as it is. */
TEST(named_plugin_is_quoted_for_a_shell)
{
	must_do("cp doubling.c './a;touch spied;b.c'; printf '[a]\\nworkload = softmax\\n"
		"strategy = ./a;touch spied;b.c\\n' >study.ini");
	refused("mvbench sweep study.ini --dry-run", "mvbench help './a;touch spied;b.c' does so");
}

/* What lies in the cache is loaded: only if nobody else can have written it, and as it was made. */
TEST(changed_copy_in_the_cache_is_not_loaded)
{
	must_do("rm -r cache; umask 000; mvbench help ./doubling.c; stat -c %a cache "
		"cache/mvbench cache/mvbench/plugins cache/mvbench/plugins/*.so | sort -u | "
		"tr '\\n' ' ' | grep -qx '700 ' && "
		"test $(stat -c %a cache/mvbench/plugins/*.sum) = 600");
	must_do("for f in cache/mvbench/plugins/*.so; do cp $f before; "
		"echo x >>$f; done; mvbench help ./doubling.c && cmp before $f");
	must_do("mvbench run --workload=softmax --train-rows=60 --epochs=1 --workers=2 "
		"--strategy=./doubling.c; for f in cache/mvbench/plugins/*.so; "
		"do echo x >>$f; done; "
		"rm doubling.c");
	refused("mvbench spread 1", "no longer in your cache");
	if (geteuid() == 0) {
		must_do("chown 65534 cache/mvbench/plugins");
		refused("mvbench help ./spirals.c", "belongs to another user");
	}
}

/* Others could write into the folder, or into its files: what they left there is not loaded. */
TEST(copy_that_others_can_have_made_is_not_loaded, 4)
{
	static const char *const opens[] = {
		"chmod 777 $p; mvbench help ./doubling.c", /* empties the folder */
		"chmod 777 $p $p/..; mvbench help ./doubling.c",
		"chmod 666 $p/*.so; mvbench help ./doubling.c",
		"chmod 666 $p/*.sum; mvbench help ./doubling.c",
	};
	if (lacks_something())
		return;
	must_do(SPY "mvbench help ./doubling.c");
	char *command AUTOFREE = sentence(
		"p=cache/mvbench/plugins; so=$(echo $p/*.so); cc -shared -fPIC spy.c -o $so && "
		"sha256sum <$so | cut -d' ' -f1 | tr -d '\\n' >${so%%.so}.sum && %s; "
		"test ! -e spied && test $(stat -c %%a $p) = 700",
		opens[_i]);
	must_do(command);
	/* the test can fail: the copy was the one that is loaded */
	must_do("p=cache/mvbench/plugins; so=$(echo $p/*.so); cc -shared -fPIC spy.c -o $so && "
		"sha256sum <$so | cut -d' ' -f1 | tr -d '\\n' >${so%.so}.sum && chmod 600 $p/*");
	ck_assert_int_eq(shell("mvbench help ./doubling.c"), 2);
	must_do("test -e spied");
}

TEST(job_file_finds_plugins_in_its_folder)
{
	if (lacks_something())
		return;
	must_do("mkdir jobs && mv *.c jobs && cat >jobs/a.ini <<'END'\n[defaults]\n"
		"doubling.most = 1, 2\nworkload = ./spirals.c\t; spirals\nepochs = 1\n"
		"exclude = strategy=doubling workers=1\n[a]\nstrategy = serial, ./doubling.c\n"
		"workers = 1, 2\nEND\nmvbench sweep jobs/a.ini");
	answers("SELECT group_concat(strategy || workers, ' ') FROM (SELECT * FROM run ORDER BY "
		"strategy, workers, id)",
		"doubling2 doubling2 serial1");
	must_do("mvbench sweep jobs/a.ini --dry-run | grep -c done");
	/* a change of its plug-ins makes the cells of a sweep new */
	must_do("echo >>jobs/doubling.c; mvbench sweep jobs/a.ini");
	answers("SELECT count(*) FROM run", "5");
}
