/*
 * plugin_file.c - a plug-in in a user's file: NAME.c, which is compiled like the program itself,
 * NAME.so, which is already compiled, or NAME.py, a workload that Python reads (python/).
 *
 * The loaded file is always a copy in the user's cache folder ($XDG_CACHE_HOME/mvbench/plugins, or
 * below ~/.cache): a later change of the file does not affect runs in progress.
 *
 *     SOURCE-WITH.so   SOURCE  sha256 of the file and the files that it includes next to it
 *                      WITH    hash of the contract's headers and the compiler command; or "so"
 *     SOURCE-WITH.py   the same of a Python file: its description, with the text of these files.
 *                      WITH: hash of the interpreter and of the program that it runs
 *     SOURCE-WITH.sum  the copy's own sha256
 *
 * A file is compiled only if the user has named it (plugin_naming): a database, a baseline or an
 * import can name any file. What the user has compiled before is loaded by its hash.
 *
 * One process at a time makes a copy, and renames it when it is complete. Workers get NAME.c#SOURCE
 * and find the copy. On another machine, with another cache, they make it again from the same file,
 * which must be there at the same path.
 */
#include "runtime/config/plugins.h"
#include "runtime/config/python/python.h"
#include "runtime/world/world.h"
#include "workloads/net.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MVBENCH_ARCH
#define MVBENCH_ARCH ""
#endif

/* Headers that a plug-in may include. The folder of the first one has the others. */
static const char *const headers[] = {"mvbench.h",
				      "runtime/base/common.h",
				      "runtime/base/rng.h",
				      "runtime/config/option_row.h",
				      "runtime/config/plugin.h",
				      "workloads/linear.h",
				      "workloads/net.h",
				      "workloads/datasets.h",
				      "strategies/exchange.h",
				      "strategies/fragment.h",
				      "strategies/graph.h",
				      "strategies/levels.h",
				      "strategies/optimizers/optimizer.h",
				      "strategies/codecs/codec.h"};

struct seen {
	char **path;
	size_t n;
};

/* One file while it is made and loaded. */
struct making {
	enum part part;
	char *path;       /* as typed, without #SHA256 */
	char *real;       /* absolute path; NULL: not found */
	int missing;      /* errno of that */
	bool object;      /* a .so */
	bool python;      /* a .py */
	struct seen seen; /* the files of its source, of a .c or .py */
	enum naming named;
	const char *wanted;       /* SHA256; NULL = any */
	char source[SHA256_ROOM]; /* SOURCE */
	char with[SHA256_ROOM];   /* WITH */
	char *home, *folder;      /* of the headers; of the copies */
	char *words;              /* the compiler command without files, separated by blanks */
	char *out;                /* the temporary file that becomes the copy */
	source_function *keep;    /* gets each file of the source; NULL = none does */
	void *keeping;
};

static void forget_seen(struct making *m)
{
	while (m->seen.n > 0)
		free(m->seen.path[--m->seen.n]);
	free(m->seen.path);
	m->seen = (struct seen){.n = 0};
}

static void making_fini(struct making *m)
{
	forget_seen(m);
	free(m->path);
	free(m->real);
	free(m->home);
	free(m->folder);
	free(m->words);
	free(m->out);
}

static char *refuse(const struct making *m, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static char *refuse(const struct making *m, const char *fmt, ...)
{
	char *what AUTOFREE = NULL;
	bool any = m->part == PART_COUNT;
	va_list args;
	va_start(args, fmt);
	CHECK(vasprintf(&what, fmt, args) >= 0, "no memory");
	va_end(args);
	return sentence("%s%s%s%s: %s", any ? "" : "--", any ? "" : part_names[m->part],
			any ? "" : "=", m->path, what);
}

/* ---- Its source ---------------------------------------------------------- */

static bool see(struct seen *s, char *path)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->path[i], path) == 0)
			return false;
	APPEND(s->path, s->n, path);
	return true;
}

/* The file name of a line #include "...", up to a quote; NULL: another line. */
static const char *included(const char *line)
{
	int n = 0;
	sscanf(line, " # include \"%n", &n);
	return n && strchr(line + n, '"') ? line + n : NULL;
}

static char *add_source(struct making *m, struct sha256 *s, const char *path);

/* Adds FOLDER/NAME, if it exists and is new. */
static char *add_file(struct making *m, struct sha256 *s, const char *folder, int n,
		      const char *name, const char *ending)
{
	char *path AUTOFREE = sentence("%s/%.*s%s", folder, n, name, ending);
	char *real = access(path, R_OK) == 0 ? realpath(path, NULL) : NULL;
	if (real && see(&m->seen, real))
		return add_source(m, s, real);
	free(real);
	return NULL;
}

/* Adds the files of a dotted name: those of its first part, FIRST.py or FIRST/__init__.py, then of
 * FIRST/SECOND, and so on. */
static char *add_module(struct making *m, struct sha256 *s, const char *folder, const char *dotted)
{
	char *path AUTOFREE = text_replaced(dotted, ".", "/");
	for (size_t n = strcspn(path, "/");; n += 1 + strcspn(path + n + 1, "/")) {
		TRY(add_file(m, s, folder, (int)n, path, ".py"));
		TRY(add_file(m, s, folder, (int)n, path, "/__init__.py"));
		if (!path[n])
			return NULL;
	}
}

/* The modules that a line imports: import X, Y as Z; from X import Y, Z. Python itself checks that
 * no file was missed (driver.py). */
static char *add_imported(struct making *m, struct sha256 *s, const char *file, const char *line)
{
	int from = 0, plain = 0;
	char *words AUTOFREE = must(strndup(line, strcspn(line, "#\n\r;"))), *rest, *one;
	sscanf(words, " from %n", &from);
	sscanf(words, " import %n", &plain);
	if (!from && !plain)
		return NULL;
	char *folder AUTOFREE = must(strdup(from ? file : m->real)), *module = words + from;
	*strrchr(folder, '/') = '\0';
	if (from && *module != '.')
		snprintf(folder, strlen(folder) + 1, "%.*s", (int)(strrchr(m->real, '/') - m->real),
			 m->real);
	while (*module == '.' && module[1] == '.') {
		char *slash = strrchr(folder, '/');
		*(slash ? slash : folder) = '\0';
		module++;
	}
	module += *module == '.';
	rest = from ? strstr(module, " import") : words + plain;
	if (!rest)
		return NULL;
	if (from) {
		module[strcspn(module, " \t")] = '\0';
		rest += strlen(" import");
	}
	while ((one = strsep(&rest, ",()"))) {
		one += strspn(one, " \t");
		one[strcspn(one, " \t")] = '\0';
		char *dotted AUTOFREE = sentence("%s%s%s", from ? module : "",
						 from && *module && *one ? "." : "", one);
		if (*dotted)
			TRY(add_module(m, s, folder, dotted));
	}
	return NULL;
}

/* Adds the file and then the files that it includes, or imports, from its folder, each once. The
 * hash is of all that the compiler reads; text ends at a byte 0. */
static char *add_source(struct making *m, struct sha256 *s, const char *path)
{
	struct stat st;
	size_t n = 0;
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return refuse(m, "%s is not a plain file", path);
	char *text AUTOFREE = bytes_read(path, &n);
	if (!text)
		return refuse(m, "%s: %s", path, strerror(errno));
	if (strlen(text) != n)
		return refuse(m, "%s is not %s: it has a byte 0", path, m->python ? "Python" : "C");
	sha256_add(s, text, n);
	if (m->keep) {
		size_t folder = (size_t)(strrchr(m->real, '/') + 1 - m->real);
		const char *inside = strncmp(path, m->real, folder) == 0 ? path + folder : NULL;
		m->keep(m->keeping, m->source, inside ? inside : strrchr(path, '/') + 1, text);
	}
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n') {
		const char *name = m->python ? NULL : included(line);
		char *folder AUTOFREE = must(strndup(path, (size_t)(strrchr(path, '/') - path)));
		if (m->python)
			TRY(add_imported(m, s, path, line));
		else if (name)
			TRY(add_file(m, s, folder, (int)strcspn(name, "\"\n"), name, ""));
	}
	return NULL;
}

static char *find_source(struct making *m)
{
	struct sha256 s;
	struct stat st;
	char *wrong = NULL;
	forget_seen(m);
	sha256_begin(&s);
	if (!m->object) {
		see(&m->seen, must(strdup(m->real)));
		wrong = add_source(m, &s, m->real);
	} else if (stat(m->real, &st) == 0 && !S_ISREG(st.st_mode)) {
		wrong = refuse(m, "%s is not a plain file", m->real);
	} else if (!sha256_file(&s, m->real)) {
		wrong = refuse(m, "%s", strerror(errno));
	}
	sha256_end(&s, m->source);
	return wrong;
}

void plugin_file_sources(const struct loaded *l, source_function *keep, void *ctx)
{
	struct making m __attribute__((cleanup(making_fini))) = {.part = l->part};
	size_t n = strlen(l->path);
	char hash[SHA256_ROOM];
	m.python = n > 3 && strcmp(l->path + n - 3, ".py") == 0;
	if (n == 0 || (!m.python && strcmp(l->path + n - 2, ".c") != 0))
		return;
	m.path = must(strdup(l->path));
	m.real = must(strdup(l->path));
	free(find_source(&m));
	memcpy(hash, m.source, sizeof hash);
	if (strcmp(hash, l->source) != 0) /* edited since it was loaded */
		return;
	m.keep = keep;
	m.keeping = ctx;
	free(find_source(&m));
}

/* ---- Its compiler -------------------------------------------------------- */

static char *find_compiler(struct making *m)
{
	const char *cc = getenv("CC"), *more = getenv("MVBENCH_CFLAGS");
	char *first = installed_path(headers[0]);
	if (!first)
		return refuse(m, "the headers of plug-ins did not come with this mvbench: set "
				 "MVBENCH_HOME to their folder");
	*strrchr(first, '/') = '\0';
	m->home = first;
	m->words = sentence("%s -std=c11 -D_GNU_SOURCE -O3 %s -g -Wall -Wextra -fopenmp-simd -fPIC "
			    "-fvisibility=hidden -shared %s",
			    cc && *cc ? cc : "cc", MVBENCH_ARCH, more ? more : "");
	struct sha256 s;
	sha256_begin(&s);
	sha256_add(&s, m->words, strlen(m->words));
	char *wrong = NULL;
	for (size_t i = 0; !wrong && i < sizeof headers / sizeof *headers; i++) {
		char *path AUTOFREE = sentence("%s/%s", m->home, headers[i]);
		if (!sha256_file(&s, path))
			wrong = sentence("%s: %s", path, strerror(errno));
	}
	sha256_end(&s, m->with);
	m->with[16] = '\0';
	return wrong;
}

/* The interpreter by its name, and by what the name leads to: a virtual environment has links. */
static void find_interpreter(char with[SHA256_ROOM])
{
	const char *name = python_interpreter();
	char *real AUTOFREE = strchr(name, '/') ? realpath(name, NULL) : NULL;
	const char *const part[] = {name, real ? real : "", python_program()};
	struct sha256 s;
	sha256_begin(&s);
	for (size_t i = 0; i < sizeof part / sizeof *part; i++)
		sha256_add(&s, part[i], strlen(part[i]) + 1);
	sha256_end(&s, with);
	with[16] = '\0';
}

/* Removes the files in a folder that others could write: any of them may have come from others. */
static int empty_folder(const char *path)
{
	int failed = 0;
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));)
		if (unlinkat(dirfd(dir), e->d_name, 0) != 0 && errno != EISDIR)
			failed = errno;
	if (!dir)
		return errno;
	closedir(dir);
	return failed;
}

/* Nobody else may write there: what lies there is loaded. */
static int close_folder(const char *path, bool empties)
{
	struct stat st;
	if (stat(path, &st) != 0 || ((st.st_mode & 077) && chmod(path, 0700) != 0))
		return errno;
	return empties && st.st_mode & 022 ? empty_folder(path) : 0;
}

static char *find_folder(struct making *m)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	bool own = cache && *cache == '/';
	if (!own && !(home && *home == '/'))
		return refuse(m, "the compiled plug-in needs a folder: set XDG_CACHE_HOME");
	char *parent AUTOFREE =
		own ? sentence("%s/mvbench", cache) : sentence("%s/.cache/mvbench", home);
	const char *folders[] = {parent, m->folder = sentence("%s/plugins", parent)};
	struct stat st;
	int failed = folder_make_own(m->folder);
	for (size_t i = 0; !failed && i < sizeof folders / sizeof *folders; i++) {
		if (stat(folders[i], &st) == 0 && st.st_uid != geteuid())
			return sentence("%s belongs to another user, and plug-ins are loaded from "
					"it: set XDG_CACHE_HOME to a folder of your own",
					folders[i]);
		failed = close_folder(folders[i], folders[i] == m->folder);
	}
	return failed ? sentence("%s: %s: no place for plug-ins; set XDG_CACHE_HOME to another "
				 "folder",
				 m->folder, strerror(failed))
		      : NULL;
}

/* ---- Making it ----------------------------------------------------------- */

/* All ranks get the same compiler messages; only the first one shows them. The file is C whatever
 * is in it: the compiler would hand other files to the linker. */
static void exec_compiler(const void *ctx)
{
	enum { MOST = 256 };
	const struct making *m = ctx;
	char *word[MOST], *rest = m->words;
	size_t n = 0;
	while (n < MOST - 12 && (word[n] = strtok_r(NULL, " ", &rest)))
		n++;
	char *const last[] = {"-I",    m->home, "-o",   m->out, "-x", "c",
			      m->real, "-x",    "none", "-lm",  NULL};
	memcpy(word + n, last, sizeof last);
	int quiet = rank_of_launcher() > 0 ? open("/dev/null", O_WRONLY) : -1;
	if (quiet >= 0)
		dup2(quiet, STDERR_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execvp(word[0], word);
}

static char *compile(const struct making *m)
{
	if (m->python) {
		char *wrong AUTOFREE = python_describe(m->out, m->seen.path, m->seen.n);
		return wrong ? refuse(m, "%s", wrong) : NULL;
	}
	int status = child_run(exec_compiler, m, NULL, 0);
	if (status == -1)
		return refuse(m, "%s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return NULL;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return refuse(m, "there is no C compiler here: install gcc and libc6-dev, set CC "
				 "to one, or give a compiled plug-in (.so)");
	return refuse(m, "%s",
		      WIFEXITED(status) ? "it does not compile: see the compiler's messages above"
					: "its compiler was killed");
}

static char *plugin_copy(const struct making *m)
{
	char part[65536];
	size_t n;
	FILE *from = fopen(m->real, "r"), *to = from ? fopen(m->out, "w") : NULL;
	bool good = to;
	while (good && (n = fread(part, 1, sizeof part, from)) > 0)
		good = fwrite(part, 1, n, to) == n;
	good = good && !ferror(from);
	if (from)
		fclose(from);
	if (to && fclose(to) != 0)
		good = false;
	return good ? NULL : refuse(m, "%s", strerror(errno));
}

/* The file with the copy's own sha256; heap. */
static char *sum_of(const char *made)
{
	return sentence("%.*s.sum", (int)(strlen(made) - strlen(".so")), made); /* or .py */
}

/* Is it a file of this user that nobody else can write? */
static bool is_own(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       !(st.st_mode & 022);
}

static bool sum_is(const char *made)
{
	char *name AUTOFREE = sum_of(made), now[SHA256_ROOM];
	struct sha256 s;
	if (!is_own(name) || !is_own(made))
		return false;
	char *kept AUTOFREE = text_read(name);
	sha256_begin(&s);
	if (!kept || !sha256_file(&s, made)) {
		sha256_end(&s, now);
		return false;
	}
	sha256_end(&s, now);
	return strcmp(kept, now) == 0;
}

/* m->out becomes the copy. */
static char *keep_made(const struct making *m, const char *made)
{
	char *sum AUTOFREE = sum_of(made),
		  *part AUTOFREE = sentence("%s.%d.part", sum, (int)getpid());
	char now[SHA256_ROOM];
	struct sha256 s;
	sha256_begin(&s);
	bool good = sha256_file(&s, m->out);
	sha256_end(&s, now);
	FILE *f = good && chmod(m->out, 0700) == 0 ? fopen(part, "w") : NULL;
	good = f && fchmod(fileno(f), 0600) == 0 && fputs(now, f) >= 0;
	good = f && fclose(f) == 0 && good;
	if (good && rename(part, sum) == 0 && rename(m->out, made) == 0)
		return NULL;
	char *wrong = sentence("%s: %s", made, strerror(errno));
	unlink(part);
	return wrong;
}

/* If the file system has no locks, two processes may make it; the last rename wins. *changed: the
 * file was edited since m->source, so that its copy would have the name of another source. */
static char *make_copy(struct making *m, const char *made, bool *changed)
{
	char *lock AUTOFREE = sentence("%s/lock", m->folder), before[SHA256_ROOM];
	free(m->out);
	m->out = sentence("%s.%d.part", made, (int)getpid());
	int fd AUTOCLOSED = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	while (fd >= 0 && flock(fd, LOCK_EX) != 0 && errno == EINTR)
		continue;
	char *wrong = NULL;
	if (!sum_is(made)) {
		memcpy(before, m->source, sizeof before);
		wrong = m->object ? plugin_copy(m) : compile(m);
		if (!wrong)
			wrong = find_source(m);
		*changed = !wrong && strcmp(before, m->source) != 0;
		if (!wrong && !*changed)
			wrong = keep_made(m, made);
		unlink(m->out);
	}
	return wrong;
}

/* An existing copy of this source for this contract, unchanged; heap; NULL: none. */
static char *find_made(struct making *m, const char *source)
{
	char python[SHA256_ROOM];
	find_interpreter(python);
	const char *const with[] = {m->with, "so", python}, *const ending[] = {"so", "so", "py"};
	for (size_t i = 0; i < 3; i++) {
		char *path = sentence("%s/%s-%s.%s", m->folder, source, with[i], ending[i]);
		if (sum_is(path)) {
			m->python = i == 2;
			return path;
		}
		free(path);
	}
	return NULL;
}

static char *refuse_named(const struct making *m)
{
	char *word AUTOFREE = word_quoted(m->path);
	return refuse(m,
		      "a file names this plug-in, and you have not: mvbench compiles and loads "
		      "only what you type. mvbench help %s does so; then it is known here",
		      word);
}

/* made: the path of the copy to load. */
static char *find_or_make(struct making *m, char **made)
{
	if (!m->real && !m->wanted && m->named != NAMED_BY_DATA)
		return refuse(m, "%s", strerror(m->missing));
	TRY(find_folder(m));
	if (m->python)
		find_interpreter(m->with);
	else if (!m->object)
		TRY(find_compiler(m));
	if (m->wanted && (*made = find_made(m, m->wanted))) {
		snprintf(m->source, sizeof m->source, "%s", m->wanted);
		return NULL;
	}
	if (!m->real && m->wanted && !strchr(m->path, '/'))
		return refuse(m,
			      "the version compiled from this source is no longer in your cache "
			      "folder: give the file, as in --strategy=./mine.c; mvbench show RUN "
			      "--source=mine.c prints it, if the database has it");
	if (m->named == NAMED_BY_DATA)
		return refuse_named(m);
	if (!m->real)
		return refuse(m, "%s", strerror(m->missing));
	for (bool changed = true; changed;) {
		changed = false;
		TRY(find_source(m));
		if (m->wanted && strcmp(m->wanted, m->source) != 0)
			return refuse(m, "the file has changed, or differs on this machine");
		if (m->named == NAMED_BY_JOB)
			return (*made = find_made(m, m->source)) ? NULL : refuse_named(m);
		free(*made);
		*made = sentence("%s/%s-%s.%s", m->folder, m->source, m->object ? "so" : m->with,
				 m->python ? "py" : "so");
		TRY(make_copy(m, *made, &changed));
	}
	return NULL;
}

/* ---- Loading it ---------------------------------------------------------- */

static const void *object_of(const struct plugin_file *f, enum part part)
{
	const void *const object[PART_COUNT] = {f->strategy, f->workload, f->optimizer, f->codec};
	return object[part];
}

/* Checks the contract, and finds the part if the caller left it open. */
static char *check_contract(struct making *m, const struct plugin_file *f)
{
	const uint32_t bytes[] = {CONTRACT_BYTES};
	enum part has = 0;
	if (f->version != CONTRACT_VERSION)
		return refuse(m,
			      "it was compiled for version %u of the contract (mvbench.h), and "
			      "this mvbench has version %d: compile it again",
			      (unsigned)f->version, CONTRACT_VERSION);
	if (memcmp(f->bytes, bytes, sizeof bytes) != 0)
		return refuse(m, "it was compiled with other headers than this mvbench's: compile "
				 "it again");
	while (has < PART_COUNT && !object_of(f, has))
		has++;
	if (has == PART_COUNT)
		return refuse(m, "there is nothing in its MVBENCH_PLUGIN()");
	if (m->part == PART_COUNT)
		m->part = has;
	return object_of(f, m->part) ? NULL
				     : refuse(m, "it has no %s; give it as --%s=%s",
					      part_names[m->part], part_names[has], m->path);
}

/* Checks required slots; otherwise a worker would fail when it calls one. */
static char *check_slots(const struct making *m, const struct plugin *p)
{
	const struct strategy *s = (const struct strategy *)p;
	const struct workload *w = (const struct workload *)p;
	const struct optimizer *o = (const struct optimizer *)p;
	const struct codec *c = (const struct codec *)p;
	const char *missing = NULL;
	if (!p->name || !*p->name ||
	    p->name[strspn(p->name, "abcdefghijklmnopqrstuvwxyz0123456789_")])
		return refuse(m,
			      "its name (.plugin.name) may have only small letters, digits and _");
	if (!p->summary)
		missing = "plugin.summary";
	else if (m->part == PART_STRATEGY)
		missing = s->step ? NULL : "step";
	else if (m->part == PART_OPTIMIZER)
		missing = !o->step ? "step" : !o->moments ? "moments" : NULL;
	else if (m->part == PART_CODEC)
		missing = !c->bytes    ? "bytes"
			  : !c->encode ? "encode"
			  : !c->decode ? "decode"
				       : NULL;
	else
		missing = !w->dataset    ? "dataset"
			  : !w->init     ? "init"
			  : !w->load     ? "load"
			  : !w->gradient ? "gradient"
			  : !w->evaluate ? "evaluate"
			  : !w->fini     ? "fini"
					 : NULL;
	return missing ? refuse(m, "%s %s lacks .%s", part_names[m->part], p->name, missing) : NULL;
}

static char *check_option_rows(const struct making *m, const struct plugin *p)
{
	void *scratch AUTOFREE = must(calloc(1, p->opts_size + sizeof(int64_t)));
	for (const struct option *o = p->options; o && o->name; o++) {
		if (strcmp(o->name, "source") == 0 && o->offset == 0 && m->python)
			continue;
		if (strcmp(o->name, "source") == 0)
			return refuse(m,
				      "the name of its option source is reserved for the hash of "
				      "its source: give it another name");
		if (o->offset >= p->opts_size)
			return refuse(m, ".plugin.opts_size is too small for its options");
		char *wrong AUTOFREE = option_set(o, scratch, p->name, o->def);
		if (wrong)
			return refuse(m, "the default of an option is refused: %s", wrong);
	}
	return NULL;
}

/* A copy with one more option, the hash of its source, which is recorded and compared. */
static const struct plugin *with_source(const struct making *m, const struct plugin *p)
{
	static const size_t size[PART_COUNT] = {sizeof(struct strategy), sizeof(struct workload),
						sizeof(struct optimizer), sizeof(struct codec)};
	size_t n = 0, room = (p->opts_size + sizeof(char *) - 1) / sizeof(char *) * sizeof(char *);
	while (p->options && p->options[n].name)
		n++;
	struct option *options = must(calloc(n + 2, sizeof *options));
	for (size_t i = 0; i < n; i++)
		options[i] = p->options[i];
	options[n] = plugin_source(m->source, room);
	struct plugin *own = must(malloc(size[m->part]));
	memcpy(own, p, size[m->part]);
	own->options = options;
	own->opts_size = room + sizeof(char *);
	return own;
}

static char *load_python(struct making *m, const char *made, struct loaded *out)
{
	struct workload *w;
	if (m->part != PART_WORKLOAD && m->part != PART_COUNT)
		return refuse(m, "it is a workload; give it as --workload=%s", m->path);
	m->part = PART_WORKLOAD;
	TRY(python_load(made, m->source, &w));
	TRY(check_slots(m, &w->plugin));
	TRY(check_option_rows(m, &w->plugin));
	*out = (struct loaded){.part = m->part, .plugin = &w->plugin};
	return NULL;
}

static char *load_object(struct making *m, const char *made, struct loaded *out)
{
	void *object = dlopen(made, RTLD_NOW | RTLD_LOCAL);
	const struct plugin_file *f = object ? dlsym(object, "mvbench_plugin") : NULL;
	if (!object)
		return refuse(m, "%s", dlerror());
	if (!f)
		return refuse(m, "it is not a plug-in: it has no MVBENCH_PLUGIN()");
	TRY(check_contract(m, f));
	const struct plugin *p = object_of(f, m->part);
	TRY(check_slots(m, p));
	TRY(check_option_rows(m, p));
	*out = (struct loaded){.part = m->part, .plugin = with_source(m, p)};
	return NULL;
}

static char *load_made(struct making *m, const char *made, struct loaded *out)
{
	TRY(m->python ? load_python(m, made, out) : load_object(m, made, out));
	out->path = must(strdup(m->real ? m->real : strchr(m->path, '/') ? m->path : ""));
	memcpy(out->source, m->source, sizeof out->source);
	return NULL;
}

char *plugin_file_load(enum part part, const char *file, struct loaded *out)
{
	struct making m __attribute__((cleanup(making_fini))) = {.part = part};
	const char *hash = strrchr(file, '#');
	char *made AUTOFREE = NULL;
	m.path = must(strndup(file, hash ? (size_t)(hash - file) : strlen(file)));
	if (hash &&
	    (strlen(hash + 1) != SHA256_ROOM - 1 || hash[1 + strspn(hash + 1, "0123456789abcdef")]))
		return refuse(
			&m,
			"after # give the 64 digits of a sha256, not %s; in a job file, a comment "
			"begins with a semicolon",
			hash + 1);
	m.wanted = hash ? hash + 1 : NULL;
	size_t n = strlen(m.path);
	m.object = n > 3 && strcmp(m.path + n - 3, ".so") == 0;
	m.python = n > 3 && strcmp(m.path + n - 3, ".py") == 0;
	m.named = plugin_naming(m.path);
	bool named = m.object || m.python || (n > 2 && strcmp(m.path + n - 2, ".c") == 0);
	if (!named && (!m.wanted || strchr(m.path, '/')))
		return refuse(&m, "give a name, or a file that ends in .c, .so or .py");
	m.real = named ? realpath(m.path, NULL) : NULL;
	m.missing = errno;
	TRY(find_or_make(&m, &made));
	return load_made(&m, made, out);
}
