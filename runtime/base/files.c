/*
 * files.c - files and folders: read whole, made for a while, and written for a user, who has the
 * old file until the new one is whole.
 */
#include "runtime/base/base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *text_read(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;
	if (!f)
		return NULL;
	if (getdelim(&text, &room, '\0', f) < 0) {
		int failed = ferror(f) ? errno : 0;
		free(text);
		text = failed ? NULL : must(strdup(""));
		errno = failed;
	}
	fclose(f);
	return text;
}

void write_all(int fd, const void *x, size_t bytes)
{
	for (const char *at = x; bytes > 0;) {
		ssize_t n = write(fd, at, bytes);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		at += n;
		bytes -= (size_t)n;
	}
}

char *folder_temporary(const char *name, char **path)
{
	const char *folder = getenv("TMPDIR");
	*path = sentence("%s/mvbench-%s-XXXXXX", folder && *folder ? folder : "/tmp", name);
	if (mkdtemp(*path))
		return NULL;
	char *wrong = sentence("%s: cannot make a folder (%s): set TMPDIR to one that has room",
			       *path, strerror(errno));
	free(*path);
	*path = NULL;
	return wrong;
}

void folder_remove(const char *path)
{
	DIR *dir = opendir(path);
	for (struct dirent *e; dir && (e = readdir(dir));)
		unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(path);
}

int folder_make(const char *path)
{
	char *each = must(strdup(path));
	struct stat st;
	int failed = 0;
	for (char *c = each + 1; failed == 0; c++) {
		char was = *c;
		if (was != '/' && was != '\0')
			continue;
		*c = '\0';
		if (mkdir(each, 0777) != 0 && errno != EEXIST)
			failed = errno;
		*c = was;
		if (was == '\0')
			break;
	}
	free(each);
	if (!failed && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
		failed = ENOTDIR;
	return failed;
}

/* ---- What a user gets ---------------------------------------------------- */

static char *cannot_write(const struct output *o)
{
	const char *why = strerror(errno ? errno : EIO);
	if (!*o->path)
		return sentence("standard output cannot be written (%s)", why);
	return sentence("%s%s: the file cannot be written (%s)", o->option, o->path, why);
}

char *output_open(struct output *o, const char *option, const char *path)
{
	struct stat st;
	*o = (struct output){.option = option, .path = must(strdup(path)), .f = stdout};
	if (!*path)
		return NULL;
	if (lstat(path, &st) != 0 || S_ISREG(st.st_mode))
		o->beside = sentence("%s.part", path);
	o->f = fopen(o->beside ? o->beside : path, "w");
	if (o->f)
		return NULL;
	char *wrong = cannot_write(o);
	free(o->beside);
	free(o->path);
	return wrong;
}

char *output_close(struct output *o, char *wrong)
{
	bool file = o->f != stdout, bad = ferror(o->f) != 0;
	errno = bad ? EIO : 0;
	bad |= fflush(o->f) != 0;
	if (file && fclose(o->f) != 0)
		bad = true;
	if (!wrong && (bad || (o->beside && rename(o->beside, o->path) != 0)))
		wrong = cannot_write(o);
	if (wrong && o->beside)
		unlink(o->beside);
	free(o->beside);
	free(o->path);
	return wrong;
}
