/*
 * fixture.h - what several suites set up: a worker alone, built by hand (one rank, one device, a
 * workload or none; no training loop, communicator or strategy), PyTorch's values, the GPU to be
 * tested, a folder of a test's own, a made set of images in it, and what a command prints, records
 * and refuses.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include "runtime/config/config.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

struct fixture {
	struct worker w;
	struct run run;
	struct device dev;
	struct data train, test;
	void *opts;
	bool loaded; /* train and test are the dataset's own */
};

/* Fills run with defaults (seed 1, batch 4, lr 0.1, no momentum) and opens the device. */
void fixture_open(struct fixture *f, const struct device_ops *ops);
/* The workload's options at their defaults; its model is made by fixture_init. */
void fixture_workload(struct fixture *f, const struct workload *workload);
/* Rows of noise instead of the dataset: n rows of `features`, of `classes` or regression. */
void fixture_data(struct fixture *f, size_t n, size_t features, size_t classes);
/* The workload's own dataset, loaded; returns false with a message when it is not there. */
bool fixture_load(struct fixture *f);
void fixture_init(struct fixture *f); /* calls the workload's init on the training data */
void fixture_close(struct fixture *f);

/* The whole vector in host memory, from the heap. */
float *fixture_get(const struct vec *v);

/* The mini-batch w->index is brought in, and its gradient computed: of a workload, or a bare net.
 */
void step_gradient(struct worker *w);
/* The gradient of w->index must be the slope of its loss: along itself, along noise, and along
 * single floats, layer by layer. */
void check_gradient(struct worker *w, const char *name);
/* Runs it in a process of its own, which must find a bug of ours and say so in these words. */
void ends_the_process(void (*with)(struct worker *w, int which), int which, const char *says);

/* ---- PyTorch: what it computed for a net and a mini-batch; tests/reference has the tables ---- */

struct reference {
	const char *name, *layers; /* the words are those of the suite that builds it */
	size_t rows, features;     /* features: where there is no image */
	struct image image;
	size_t outputs, params, buffers;
	bool mse;
	double loss, evaluated; /* evaluated after the steps; 0: it was not */
	const float *x, *target, *param, *grad, *after, *running;
};
/* The gradient of the net that is built, and what three steps and its evaluation give, must be
 * PyTorch's: each number within `own` of itself, or `most` of the largest beside it, as single
 * gradients are differences of larger numbers. */
void check_reference(const struct reference *r, const struct device_ops *device,
		     void (*build)(struct worker *w, const struct data *d,
				   const struct reference *r),
		     double own, double most);

/* ---- The GPU to be tested: the machine's own with MVBENCH_GPU_TEST=1, else tests/fake_cuda, which
 * emulates one wherever nvcc was there to build it. ---- */

bool on_real_gpu(void);
const char *gpu_module(void); /* the file */
bool have_gpu(void);
/* Workers that this process starts from here on use the emulated one, if that is to be tested. */
void use_gpu(void);

/* ---- A folder, as a checked or unchecked fixture: made, and removed with what is in it ---- */

extern char folder[64];
void folder_new(void);
void folder_enter(void); /* makes it, and goes there */
void folder_free(void);
/* Writes folder/NAME, or folder/NAME.gz. */
void folder_put(const char *name, const void *x, size_t bytes, bool zipped);
void folder_text(const char *name, const char *text);
/* All of folder/NAME, which has no zero byte, from the heap. */
char *folder_read(const char *name);

/* ---- A made set of images: every class has a prototype, to which each row adds noise of its own.
 * ---- */

enum { SIDE = 28, PIXELS = SIDE * SIDE, IDX_IMAGES = 3, IDX_LABELS = 1 };
/* where the rows of an IDX file begin [bytes] */
enum { IDX_IMAGES_AT = 4 + 4 * IDX_IMAGES, IDX_LABELS_AT = 4 + 4 * IDX_LABELS };

/* One IDX file of a part with so many rows, header first, from the heap. dims: IDX_IMAGES or
 * IDX_LABELS. Parts of different sizes are different rows. */
uint8_t *idx_new(int dims, uint32_t rows, size_t *bytes);
/* The four files into the folder, named train-images-idx3-ubyte and so on; dot stands before
 * idx3. */
void idx_put_set(uint32_t train, uint32_t test, bool zipped, char dot);
/* 600 and 60 rows in a new folder: a fixture; folder_free is its end. */
void small_data(void);

/* ---- Commands ------------------------------------------------------------ */

/* Starts it in a child, with words up to NULL, after folder_enter; what it prints goes to the files
 * out and err. Returns its exit status. */
int start_command(const struct command *c, const char *const *word);
/* The text must be in that file of the folder, or must not. */
void expect_said(const char *file, const char *text, bool there);

/* Runs a shell command; what it prints goes to out, cut to fit. Returns its exit status, or 128. */
int command_output(const char *command, char *out, size_t room);
/* Runs ./mvbench with words, in an environment of more words, on the folder's data, and adds to its
 * database. */
int run_mvbench(const char *environment, const char *words, char *out, size_t room);
/* The same, which must end well, and is ended where it hangs. */
void record_run(const char *words);
void forget_runs(void); /* removes the database */
/* What the folder's database answers: one row. */
void expect_row(const char *sql, const char *want);
/* In a new database: the run ends well, and then it answers so. */
void expect_recorded(const char *environment, const char *words, const char *sql, const char *want);
/* The user's mistake, in a sentence with these words. */
void expect_refused(const char *environment, const char *words, const char *says);

#endif
