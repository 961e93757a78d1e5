/*
 * fixture.h - what several suites set up: a worker alone, built by hand (one rank, one device, a
 * workload or none; no training loop, communicator or strategy); comparisons with PyTorch; the GPU
 * to be tested; a folder for a test, with a made set of images; and checks of what a command
 * prints, records and refuses.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "runtime/cli/cli.h"
#include "runtime/config/plan.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

struct fixture {
	struct worker w;
	struct loop loop;
	struct run *run; /* heap: suites that do not use its fields need not know them */
	struct device dev;
	struct data train, test;
	void *opts;
	bool loaded; /* train and test are the dataset's own */
};

/* Fills run with defaults (seed 1, batch 4, lr 0.1, no momentum) and opens the device. */
void fixture_open(struct fixture *f, const struct device_ops *ops);
/* The workload's options at their defaults; fixture_init makes its model. */
void fixture_workload(struct fixture *f, const struct workload *workload);
/* Rows of noise instead of the dataset: n rows of `features`, with `classes`, or for regression if
 * classes is 0. */
void fixture_data(struct fixture *f, size_t n, size_t features, size_t classes);
/* Loads the workload's own dataset; if it is missing, prints a message and returns false. */
bool fixture_load(struct fixture *f);
void fixture_init(struct fixture *f);  /* calls the workload's init on the training data */
void fixture_close(struct fixture *f); /* and its model; does nothing if f was never opened */
/* Closed where its block ends: struct fixture f AUTOFIXTURE = {0}. */
#define AUTOFIXTURE __attribute__((cleanup(fixture_close)))

/* A value of the option that is not its default, and that simulated workers take. */
void other_value(const struct option *o, char *text, size_t room);

/* With default options, does its result depend on the order in which pushes arrive? */
bool arrival_decides(const struct strategy *s);

/* The whole vector in host memory, from the heap. */
float *fixture_get(const struct vec *v);

/* Loads the mini-batch w->index and computes its gradient, of a workload or a bare net. */
void step_gradient(struct worker *w);
/* The gradient of w->index must be the slope of its loss: along itself, along noise, and along
 * single floats, layer by layer. */
void check_gradient(struct worker *w, const char *name);
/* Runs it in a process of its own, which must end with an internal error that has these words. */
void ends_the_process(void (*with)(struct worker *w, int which), int which, const char *says);

/* ---- PyTorch's numbers for a net and a mini-batch; the tables are in tests/reference. Inputs and
 * parameters are drawn from the numbers of the rows and floats. ---- */

struct reference {
	const char *name, *layers; /* the words are those of the suite that builds the net */
	size_t rows, features;     /* features: if there is no image */
	struct image image;
	size_t outputs, params, buffers;
	bool mse;
	double loss, evaluated; /* evaluated after the steps; 0: not evaluated */
	const float *grad, *after, *running;
};
/* The gradient of the built net, and the results of three steps and an evaluation, must equal
 * PyTorch's. Each number is within `own` of itself, or `most` of the largest one in its vector,
 * because single gradients are differences of larger numbers. */
void check_reference(const struct reference *r, const struct device_ops *device,
		     void (*build)(struct worker *w, const struct data *d,
				   const struct reference *r),
		     double own, double most);

/* ---- The GPU to be tested: the machine's own with MVBENCH_GPU_TEST=1, otherwise tests/fake_cuda,
 * which emulates one if nvcc was there to build it. ---- */

bool on_real_gpu(void);
const char *gpu_module(void); /* the file */
bool have_gpu(void);
/* From here on, workers that this process starts use the emulated GPU, if that one is tested. */
void use_gpu(void);

/* ---- A folder, as a checked or unchecked fixture: created, and removed with its contents ---- */

extern char folder[64];
void folder_new(void);
void folder_enter(void); /* creates it and changes into it */
void folder_free(void);
/* Writes folder/NAME, or folder/NAME.gz. */
void folder_put(const char *name, const void *x, size_t bytes, bool zipped);
void folder_text(const char *name, const char *text);
/* All of folder/NAME, which has no zero byte; from the heap. */
char *folder_read(const char *name);

/* The path of a device like /dev/null or /dev/full, from the heap. As root it is one of the folder,
 * because an error under test could replace it; NULL: none can be made. */
char *own_device(const char *name);

/* ---- A made set of images: a prototype for each class, and noise of its own for each row ---- */

enum { SIDE = 28, PIXELS = SIDE * SIDE, IDX_IMAGES = 3, IDX_LABELS = 1 };
/* where the rows of an IDX file begin [bytes] */
enum { IDX_IMAGES_AT = 4 + 4 * IDX_IMAGES, IDX_LABELS_AT = 4 + 4 * IDX_LABELS };

/* One IDX file with this number of rows, header first, from the heap. dims: IDX_IMAGES or
 * IDX_LABELS. Files with different numbers of rows have different rows. */
uint8_t *idx_new(int dims, uint32_t rows, size_t *bytes);
/* Writes the four files into the folder, named train-images-idx3-ubyte and so on; `dot` is the
 * character before idx3. */
void idx_put_set(uint32_t train, uint32_t test, bool zipped, char dot);
/* A fixture: 600 and 60 rows in a new folder. folder_free ends it. */
void small_data(void);

/* ---- Simulated platforms: each folder/NAME ---- */

#define PLATFORM_HEAD \
	"<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n" \
	"<platform version='4.1'><config>\n" \
	"<prop id='smpi/bw-factor' value='0:1'/><prop id='smpi/lat-factor' value='0:1'/>\n" \
	"<prop id='network/crosstraffic' value='0'/>\n" \
	"<prop id='network/loopback-bw' value='1e15'/>\n" \
	"<prop id='network/loopback-lat' value='1e-9'/>\n</config>\n"
/* Hosts on a switch. Each has a link of 1 ms and 1 MB/s of its own. The slow hosts have half the
 * speed and come first. */
void put_hosts(const char *name, int hosts, int cores, int slow);

/* ---- Commands ------------------------------------------------------------ */

/* Starts the command in a child, with words up to NULL, after folder_enter. Its output goes to the
 * files out and err. Returns its exit status. */
int start_command(const struct command *c, const char *const *word);
/* The file of the folder must contain this text, or must not. */
void expect_said(const char *file, const char *text, bool there);

/* Runs a shell command; out gets its output, cut to fit. Returns its exit status, or 128. */
int command_output(const char *command, char *out, size_t room);
/* The shell command must end with this status and print these words. What it prints is then in
 * `output`. */
extern char output[1 << 16];
void expect_command(int want, const char *command, const char *says);
/* Runs ./mvbench run with these words and environment, on the folder's data. It adds to the
 * folder's database. */
int run_mvbench(const char *environment, const char *words, char *out, size_t room);
/* As run_mvbench, but the run must succeed, and is ended if it hangs. */
void record_run(const char *words);
void forget_runs(void);              /* removes the database */
void record_only(const char *words); /* as record_run, in a new database */
/* The query on the folder's database must give this row. */
void expect_row(const char *sql, const char *want);
/* In a new database: the run must succeed, and the query must then give this. */
void expect_recorded(const char *environment, const char *words, const char *sql, const char *want);
/* The run must be refused as a mistake of the user, with a message that has these words. */
void expect_refused(const char *environment, const char *words, const char *says);

#endif
