/*
 * fuzz.c - gives malformed files to the readers of external files (libFuzzer, with sanitizers).
 * FUZZ=NAME selects the reader. Only a crash, a leak or a sanitizer's report is an error: every
 * input must be read or refused. `make fuzz` runs it.
 */
#include "results/run/cells.h"
#include "runtime/config/checkpoint.h"
#include "tests/fuzz/fuzz.h"
#include "results/gate/gate.h"
#include "workloads/datasets.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
const struct command *const commands[] = {NULL};
topic_source *const topic_sources[] = {NULL};

char *folder;

char *write_file(const char *name, const uint8_t *data, size_t size)
{
	char *path = sentence("%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0, "%s: %m", path);
	write_all(fd, data, size);
	close(fd);
	return path;
}

void refused(char *sentence)
{
	free(sentence);
}

static void load(const struct dataset *set)
{
	struct run run = {.data_dir = folder};
	struct data train = {.n = 0}, test = {.n = 0};
	refused(set->probe(&run, &train, &test));
	char *wrong AUTOFREE = set->load(&run, &train, &test);
	if (!wrong)
		set->unload(&train, &test);
}

/* The first byte selects one of the four files; the others contain one grey image. */
static void read_idx(const uint8_t *data, size_t size)
{
	static const char *const name[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
					   "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
	uint8_t image[16 + 28 * 28] = {0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 28, 0, 0, 0, 28},
				label[9] = {0, 0, 8, 1, 0, 0, 0, 1, 7};
	for (size_t i = 0; i < 4; i++)
		free(size && *data % 4 == i ? write_file(name[i], data + 1, size - 1)
					    : write_file(name[i], i % 2 ? label : image,
							 i % 2 ? sizeof label : sizeof image));
	load(&dataset_fashion_mnist);
}

static void read_cifar(const uint8_t *data, size_t size)
{
	static const uint8_t row[3073];
	for (int i = 1; i <= 5; i++) {
		char *name AUTOFREE = sentence("data_batch_%d.bin", i);
		free(write_file(name, row, sizeof row));
	}
	free(write_file("test_batch.bin", data, size));
	load(&dataset_cifar10_or_fashion);
}

/* The first byte selects the file. */
static void read_own(const uint8_t *data, size_t size)
{
	static const char *const name[] = {"own.npz", "own.csv", "x.npy"};
	const char *chosen = name[size ? *data % 3 : 0];
	char *path AUTOFREE = write_file(chosen, data + (size > 0), size - (size > 0)),
		   *whole = folder;
	if (strcmp(chosen, "x.npy") != 0)
		folder = path;
	else
		free(write_file("y.npy", data + 1, size - 1));
	load(&dataset_fashion_mnist);
	folder = whole;
	unlink(path);
}

static void read_job(const uint8_t *data, size_t size)
{
	char *path AUTOFREE = write_file("job.ini", data, size);
	struct sweep sweep = {.cell = NULL};
	refused(sweep_read(path, NULL, 0, &sweep, NULL, false));
	sweep_free(&sweep);
}

/* One word a line. */
static void read_options(const uint8_t *data, size_t size)
{
	enum { WORDS = 32 };
	char *text AUTOFREE = must(strndup((const char *)data, size)), *words[WORDS], *rest = text;
	struct config c = {.strings = NULL};
	struct arguments a;
	int n = 0;
	for (char *word; n < WORDS && (word = strtok_r(rest, "\n", &rest));)
		words[n++] = word;
	char *wrong AUTOFREE = arguments_read(&a, n, words, NULL, NULL);
	if (!wrong) {
		wrong = config_init(&c, a.option, a.options, false);
		if (!wrong) {
			char hash[17];
			config_hash(&c, hash);
			config_fini(&c);
		}
		arguments_free(&a);
	}
}

static void read_baseline(const uint8_t *data, size_t size)
{
	static struct store *s;
	char *path AUTOFREE = write_file("baseline.jsonl", data, size);
	struct gate_options o = {.import = path, .save = "", .replace = true};
	if (!s)
		s = sql_schema();
	refused(baseline_import(s, &o));
}

/* As table, plot and import read it. */
static void read_database(const uint8_t *data, size_t size)
{
	static FILE *nowhere;
	char *path AUTOFREE = write_file("runs.db", data, size);
	struct store *s = NULL;
	if (!nowhere)
		nowhere = must(fopen("/dev/null", "w"));
	char *wrong AUTOFREE = store_open(&s, path, STORE_READ);
	if (!wrong)
		wrong = database_choose(s, "", "", true);
	if (!wrong)
		wrong = query_print(s, nowhere, FORMAT_TEXT, "SELECT * FROM configuration_summary",
				    NULL, 0, NULL);
	if (!wrong)
		wrong = query_print(s, nowhere, FORMAT_CSV, "SELECT * FROM main.run_summary", NULL,
				    0, NULL);
	store_close(s);
	database_remove(path);
}

/* The first line is the variable of the status page, the rest is the page. */
static void read_page(const uint8_t *data, size_t size)
{
	size_t head = 0;
	while (head < size && data[head] != '\n')
		head++;
	char *text AUTOFREE = must(strndup((const char *)data, head));
	char *path AUTOFREE = write_file("page", data + head, size - head);
	char *variable AUTOFREE = sentence("%s:%s", text, path);
	struct status_page *page = status_find(variable);
	status_free(page);
	page = status_find(text);
	status_free(page);
}

/* ---- Checkpoints --------------------------------------------------------- */

/* Corrects checksums and the configuration's hash; otherwise code behind them is not reached. */
static void mend_checkpoint(uint8_t *data, size_t size, const char *config_hash)
{
	struct checkpoint_head h;
	uint64_t hash = HASH_START;
	if (size < sizeof h + sizeof hash)
		return;
	memcpy(&h, data, sizeof h);
	size_t most = size - sizeof h - sizeof hash, workers = (size_t)h.workers,
	       floats = (size_t)h.params + (size_t)h.buffers;
	h.bytes = (int64_t)size;
	snprintf(h.config_hash, sizeof h.config_hash, "%s", config_hash);
	if (workers <= most / sizeof(int64_t) && floats <= most / sizeof(float) &&
	    workers * sizeof(int64_t) + floats * sizeof(float) <= most) {
		const uint8_t *model = data + sizeof h + workers * sizeof(int64_t);
		snprintf(h.model, sizeof h.model, "%016llx",
			 (unsigned long long)hash_of(HASH_START, model, floats * sizeof(float)));
	}
	memcpy(data, &h, sizeof h);
	hash = hash_of(hash, data, size - sizeof hash);
	memcpy(data + size - sizeof hash, &hash, sizeof hash);
}

/* Reads all that the head announces. */
static void use_checkpoint(struct checkpoint *k)
{
	char hash[HASH_ROOM];
	size_t bytes = 0;
	if (!k)
		return;
	checkpoint_model_hash(k, hash);
	CHECK(strcmp(hash, k->head.model) == 0, "the model is %s, not %s", hash, k->head.model);
	for (int64_t i = 0; i < k->head.workers; i++)
		bytes += (size_t)k->state_bytes[i];
	free(sentence("%llx", (unsigned long long)hash_of(HASH_START, k->state, bytes)));
	checkpoint_free(k);
}

/* As it is, and with correct checksums: as initial model, and to resume from. */
static void read_checkpoint(const uint8_t *data, size_t size)
{
	static struct config c;
	static char hash[17];
	struct checkpoint *initial = NULL, *resumed = NULL;
	char *path AUTOFREE = sentence("%s/checkpoint", folder);
	uint8_t *copy AUTOFREE = must(malloc(size + 1));
	struct plan plan = {.params = 0};
	if (!c.strings) {
		char *wrong =
			config_init(&c, &(struct setting){"workload", "perceptron"}, 1, false);
		CHECK(!wrong, "%s", wrong);
		config_hash(&c, hash);
	}
	memcpy(copy, data, size);
	for (int mended = 0; mended < 2; mended++) {
		struct checkpoint_head head = {.params = 0};
		struct config as = c;
		if (mended)
			mend_checkpoint(copy, size, hash);
		free(write_file("checkpoint", copy, size));
		refused(checkpoint_read_head("init-from", path, &head));
		plan.params = head.params;
		plan.buffers = head.buffers;
		plan.layout = head.layout;
		head.model[HASH_ROOM - 1] = '\0';
		as.harness.initial_model = head.model;
		as.harness.init_from = as.harness.save = path;
		refused(checkpoint_find(&as, &plan, &initial, &resumed));
		use_checkpoint(initial);
		use_checkpoint(resumed);
		as.harness.init_from = "";
		refused(checkpoint_find(&as, &plan, &initial, &resumed));
		use_checkpoint(resumed);
	}
}

/* ---- Messages of codecs -------------------------------------------------- */

/* Each bit of the byte gives an option another value than its default. */
static void set_options(const struct codec *k, void *opts, unsigned bits)
{
	option_default(k->plugin.options, opts);
	for (const struct option *o = k->plugin.options; o && o->name; o++, bits >>= 1) {
		char *least AUTOFREE = sentence("%g", o->min);
		const char *value = o->type == OPT_CHOICE ? strrchr(o->choices, '|') + 1
				    : o->type == OPT_BOOL ? "true"
							  : least;
		if (bits & 1)
			refused(option_set(o, opts, k->plugin.name, value));
	}
}

/* The first byte selects the codec, two the number of floats, and one its options; then comes a
 * message, which is cut or filled up to its length. */
static void read_code(const uint8_t *data, size_t size)
{
	enum { HEAD = 4, ROWS = 7, MOST = 4096 };
	size_t listed = 0;
	while (codecs[listed])
		listed++;
	if (size < HEAD || !codecs[*data % listed]->decode)
		return;
	const struct codec *k = codecs[*data % listed];
	const size_t n = 1 + (data[1] | (size_t)data[2] << 8) % MOST, columns = n / ROWS;
	const struct tensor tensor[] = {{.first = 0, .rows = ROWS, .columns = columns},
					{.first = ROWS * columns, .rows = 1, .columns = n % ROWS}};
	void *opts AUTOFREE = must(calloc(1, k->plugin.opts_size + 1));
	set_options(k, opts, data[3]);
	struct code c = {.opts = opts,
			 .n = n,
			 .tensor = tensor + (columns == 0),
			 .tensors = (columns > 0) + (n % ROWS > 0),
			 .workers = 2,
			 .round = k->rounds ? k->rounds - 1 : 0};
	size_t bytes = k->bytes(&c), given = size - HEAD;
	uint8_t *wire AUTOFREE = must(malloc(bytes + !bytes)); /* its end is its own */
	float *y AUTOFREE = must(calloc(n, sizeof *y)),
		 *state AUTOFREE = must(calloc((k->state ? k->state(&c) : 0) + 1, sizeof *state));
	c.state = state;
	memset(wire, 0, bytes);
	memcpy(wire, data + HEAD, given < bytes ? given : bytes);
	for (int add = 0; add < 2; add++)
		k->decode(&c, y, wire, add);
}

/* ---- The readers --------------------------------------------------------- */

static const struct target targets[] = {
	{"idx", read_idx},
	{"cifar", read_cifar},
	{"own", read_own},
	{"jobfile", read_job},
	{"options", read_options},
	{"baseline", read_baseline},
	{"database", read_database},
	{"page", read_page},
	{"checkpoint", read_checkpoint},
	{"code", read_code},
	{"calibration", read_calibration},
	{"table", read_table},
	{"import", read_import},
	{"report", read_report},
	{"platform", read_platform, mutate_platform},
};

static const struct target *target;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *name = getenv("FUZZ");
	(void)argc, (void)argv;
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
		if (name && strcmp(name, targets[i].name) == 0)
			target = &targets[i];
	if (!target) {
		fputs("FUZZ must name a reader:", stderr);
		for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
			fprintf(stderr, " %s", targets[i].name);
		fputs("\n", stderr);
		exit(EXIT_USER);
	}
	char *wrong = folder_temporary("fuzz", &folder);
	CHECK(!wrong, "%s", wrong);
	CHECK(freopen("/dev/null", "w", stdout), "/dev/null: %m");
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	target->read(data, size);
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
	if (target->mutate && seed % 4)
		return target->mutate(data, size, most, seed / 4);
	return LLVMFuzzerMutate(data, size, most);
}
