/*
 * cudart.cc - the fake CUDA runtime without its memory: devices, errors, streams, graphs and
 * copies.
 *
 * A stream is a queue of functions. Waiting for a stream runs them, oldest first. The default
 * stream waits for other streams and they wait for it: a test that uses it, or makes a stream that
 * it would wait for, ends. An event is a place in a queue. A graph is the work of one captured
 * stream, and of the streams that waited for it during the capture: one list for each. A launch
 * puts the first list into a stream's queue; another list advances when a wait for a place in it
 * runs.
 */
#include "runtime.h"

#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <unistd.h>
#include <vector>

using namespace fake;

namespace
{
struct op {
	std::function<void()> run; /* none: a wait in a graph, for this place of that list */
	bool at_once;
	size_t list = 0, place = 0;
};

using lists = std::vector<std::vector<op>>;

struct capture {
	cudaStreamCaptureMode mode;
	bool spoilt;
	std::vector<cudaStream_t> member; /* member i has list i */
	lists nodes;
};

/* A launched graph. */
struct launched {
	lists nodes;
	std::vector<size_t> done;

	void advance(size_t list, size_t place)
	{
		for (; done[list] < place; done[list]++) {
			const op &o = nodes[list][done[list]];
			if (o.run)
				o.run();
			else
				advance(o.list, o.place);
		}
	}
};

} // namespace

struct CUstream_st {
	int on;
	bool alive;
	std::deque<op> queue;
	size_t queued, done;
	std::shared_ptr<capture> in; /* NULL: not being captured */
	size_t list;                 /* in its capture */
};

struct CUevent_st {
	cudaStream_t of; /* NULL: never recorded */
	size_t place;
	std::shared_ptr<capture> in; /* the place is in a list of it; NULL: in the stream's queue */
	size_t list;
	bool timed;
	double at; /* the fake GPU's clock when the stream came to the event [ms]; NaN: not yet */
};

struct CUgraph_st {
	lists nodes;
};

struct CUgraphExec_st {
	lists nodes;
	int on;
};

namespace
{
std::vector<std::unique_ptr<CUstream_st>> streams; /* never freed: old handles are recognised */
int current;
pid_t owner; /* the process of the first call */
cudaError_t last, broken;
long kernels_done, operations_begun;
double clock_ms;

cudaStream_t stream_of(cudaStream_t s)
{
	if (!s || s == cudaStreamLegacy || s == cudaStreamPerThread)
		fail("the default stream was used, and the fake has none");
	for (auto &one : streams)
		if (one.get() == s && s->alive)
			return s;
	note("%p is not a stream, or was destroyed", (void *)s);
	return NULL;
}

/* Runs the queue up to this place. A failed GPU does nothing more. */
void finish(cudaStream_t s, size_t place)
{
	if (s->done >= place)
		return;
	memory_open();
	while (s->done < place && broken == cudaSuccess) {
		op next = std::move(s->queue.front());
		s->queue.pop_front();
		next.run();
		s->done++;
	}
	memory_close();
}

cudaError_t spoil(CUstream_st &s, const char *why, cudaError_t e)
{
	note("a capture is invalid: %s", why);
	s.in->spoilt = true;
	return e;
}

/* Records or queues the operation. Returns the GPU's failure, if it has failed. */
cudaError_t push(cudaStream_t s, op o)
{
	if (s->in) {
		s->in->nodes[s->list].push_back(std::move(o));
		return s->in->spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
	}
	s->queued++;
	bool at_once = o.at_once;
	s->queue.push_back(std::move(o));
	if (at_once)
		finish(s, s->queued);
	return broken;
}

/* Does list 0 wait for all of this list? */
bool is_joined(const capture &c, size_t list)
{
	for (const op &o : c.nodes[0])
		if (!o.run && o.list == list && o.place == c.nodes[list].size())
			return true;
	return false;
}

/* A stream waits for an event of a capture; a stream that is not captured joins the capture. */
cudaError_t wait_captured(cudaStream_t s, const CUevent_st &e)
{
	if (s->in && s->in != e.in)
		return spoil(*s, "its stream waits for work outside the capture",
			     cudaErrorStreamCaptureIsolation);
	if (!s->in) {
		s->in = e.in;
		s->list = e.in->nodes.size();
		s->in->member.push_back(s);
		s->in->nodes.emplace_back();
	}
	op wait = {NULL, false, e.list, e.place};
	return push(s, wait);
}

int driver_version()
{
	return (int)setting("FAKE_CUDA_DRIVER", CUDART_VERSION);
}

/* An error, unless the two pointers fit the kind of copy that the caller gives. */
cudaError_t check_copy(const void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
	where a = memory_where(from, bytes), b = memory_where(to, bytes);
	bool from_device = a == ON_DEVICE, to_device = b == ON_DEVICE;
	bool good =
		kind == cudaMemcpyDefault || kind == (cudaMemcpyKind)(from_device * 2 + to_device);
	if (a == NOWHERE || b == NOWHERE || !good) {
		note("a copy of %zu bytes, kind %d, from %p (%d) to %p (%d)", bytes, (int)kind,
		     from, (int)a, to, (int)b);
		return cudaErrorInvalidValue;
	}
	return cudaSuccess;
}

} // namespace

namespace fake
{
void spend(double ms)
{
	clock_ms += ms;
}

long operations()
{
	return operations_begun;
}

long setting(const char *name, long otherwise)
{
	const char *text = getenv(name);
	return text ? atol(text) : otherwise;
}

void note(const char *format, ...)
{
	if (!setting("FAKE_CUDA_NOTES", 0))
		return;
	va_list ap;
	va_start(ap, format);
	fputs("fake CUDA: ", stderr);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
	va_end(ap);
}

void fail(const char *format, ...)
{
	va_list ap;
	va_start(ap, format);
	fputs("fake CUDA: ", stderr);
	vfprintf(stderr, format, ap);
	fputc('\n', stderr);
	va_end(ap);
	abort();
}

int device()
{
	return current;
}

cudaError_t remember(cudaError_t e)
{
	if (e != cudaSuccess)
		last = e;
	return e;
}

cudaError_t enter(bool unsafe)
{
	if (running())
		fail("%s: called the host's library", running());
	if (driver_version() / 1000 < CUDART_VERSION / 1000)
		return cudaErrorInsufficientDriver;
	if (setting("FAKE_CUDA_DEVICES", 1) < 1)
		return cudaErrorNoDevice;
	if (!owner)
		owner = getpid();
	if (owner != getpid())
		return cudaErrorInitializationError; /* the runtime does not survive a fork */
	if (broken != cudaSuccess)
		return broken;
	for (auto &s : streams)
		if (unsafe && s->in && s->in->mode != cudaStreamCaptureModeRelaxed)
			return spoil(*s, "a call that may wait was made",
				     cudaErrorStreamCaptureUnsupported);
	return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t s, std::function<void()> run, bool at_once)
{
	s = stream_of(s);
	if (!s)
		return cudaErrorInvalidResourceHandle;
	return push(s, {[run = std::move(run)] {
				operations_begun++;
				run();
			},
			at_once});
}

cudaError_t finish_all()
{
	for (auto &s : streams)
		finish(s.get(), s->queued);
	return broken;
}

void make_context(int on)
{
	static unsigned made;
	const char *file = getenv("FAKE_CUDA_STARTS");
	FILE *f = file && !(made >> on & 1) ? fopen(file, "a") : NULL;
	made |= 1u << on;
	if (!f)
		return;
	fprintf(f, "%d %d\n", (int)getpid(), on);
	fclose(f);
}

void check_argument(const char *kernel, int i, const void *p)
{
	if (p && !reaches(p, 1))
		fail("kernel %s: its argument %d, %p, is not in device memory", kernel, i + 1, p);
}

/* As <<<>>>: cudaGetLastError reports the error. */
void launch(const char *kernel, dim3 blocks, dim3 threads, cudaStream_t stream,
	    std::function<void()> body)
{
	call([&] {
		size_t n = (size_t)threads.x * threads.y * threads.z;
		size_t b = (size_t)blocks.x * blocks.y * blocks.z;
		cudaStream_t s = stream_of(stream);
		if (n == 0 || n > 1024 || threads.z > 64 || b == 0 || blocks.x > INT32_MAX ||
		    blocks.y > 65535 || blocks.z > 65535) {
			note("kernel %s: %zu blocks of %zu threads", kernel, b, n);
			return cudaErrorInvalidConfiguration;
		}
		if (!s || s->on != current)
			return cudaErrorInvalidResourceHandle;
		return enqueue(s, [=] {
			if (++kernels_done == setting("FAKE_CUDA_FAIL", 0)) {
				note("kernel %s fails, as asked for", kernel);
				broken = cudaErrorLaunchFailure;
				return;
			}
			spend(KERNEL_MS);
			run_blocks(kernel, blocks, threads, body);
		});
	});
}

} // namespace fake

/* ---- Devices and errors ---- */

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = driver_version();
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = 0;
	return call([&] {
		*n = (int)setting("FAKE_CUDA_DEVICES", 1);
		return cudaSuccess;
	});
}

cudaError_t cudaSetDevice(int i)
{
	return call([&] {
		if (i < 0 || i >= setting("FAKE_CUDA_DEVICES", 1))
			return cudaErrorInvalidDevice;
		current = i;
		make_context(i);
		return cudaSuccess;
	});
}

cudaError_t cudaGetDevice(int *i)
{
	return call([&] {
		*i = current;
		return cudaSuccess;
	});
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int i)
{
	return call([&] {
		if (i < 0 || i >= setting("FAKE_CUDA_DEVICES", 1))
			return cudaErrorInvalidDevice;
		*p = {};
		strcpy(p->name, "Fake GPU");
		p->totalGlobalMem = memory_total();
		p->major = 9;
		p->multiProcessorCount = 4;
		p->warpSize = 32;
		p->maxThreadsPerBlock = 1024;
		p->unifiedAddressing = 1;
		p->uuid.bytes[0] = (char)(i + 1 + setting("FAKE_CUDA_FIRST", 0));
		return cudaSuccess;
	});
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int)
{
	return call([&] {
		if (which != cudaDevAttrMpsEnabled)
			return cudaErrorInvalidValue;
		*value = (int)setting("FAKE_CUDA_MPS", 0);
		return cudaSuccess;
	});
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t e = broken != cudaSuccess ? broken : last;
	last = cudaSuccess;
	return e;
}

/* ---- Streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
	return call([&] {
		if (flags != cudaStreamNonBlocking)
			fail("a stream that the default stream would wait for, and the fake has "
			     "none");
		make_context(current);
		while (setting("FAKE_CUDA_HANG", 0))
			pause();
		streams.emplace_back(new CUstream_st{current, true, {}, 0, 0, NULL, 0});
		*s = streams.back().get();
		return cudaSuccess;
	});
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return cudaSuccess;
}

/* Priorities change nothing: streams are lazy. */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags, int priority)
{
	if (priority > 0 || priority < -5)
		return remember(cudaErrorInvalidValue);
	return cudaStreamCreateWithFlags(s, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	return call([&] {
		if (!stream_of(s))
			return cudaErrorInvalidResourceHandle;
		finish(s, s->queued);
		s->alive = false;
		return broken;
	});
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	return call([&] {
		cudaStream_t s = stream_of(stream);
		if (!s)
			return cudaErrorInvalidResourceHandle;
		if (s->in)
			return spoil(*s, "its stream was waited for",
				     cudaErrorStreamCaptureUnsupported);
		finish(s, s->queued);
		return broken;
	});
}

/* Each query runs one operation of the stream. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	return call_unsafe([&] {
		cudaStream_t s = stream_of(stream);
		if (!s)
			return cudaErrorInvalidResourceHandle;
		if (s->done < s->queued)
			finish(s, s->done + 1);
		return broken != cudaSuccess ? broken
		       : s->done < s->queued ? cudaErrorNotReady
					     : cudaSuccess;
	});
}

/* ---- Events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
	return call([&] {
		*e = new CUevent_st{NULL, 0, NULL, 0, flags != cudaEventDisableTiming, NAN};
		return cudaSuccess;
	});
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	return call([&] {
		delete e;
		return cudaSuccess;
	});
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t stream)
{
	return call([&] {
		cudaStream_t s = stream_of(stream);
		if (!s)
			return cudaErrorInvalidResourceHandle;
		if (e->timed && s->in)
			fail("an event with a time in a graph, which the fake has not");
		if (e->timed) {
			e->at = NAN;
			push(s, {[=] { e->at = clock_ms; }, false});
		}
		*e = {s,        s->in ? s->in->nodes[s->list].size() : s->queued,
		      s->in,    s->list,
		      e->timed, e->at};
		return cudaSuccess;
	});
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	return call([&] {
		if (!from->timed || !to->timed)
			return cudaErrorInvalidResourceHandle;
		*ms = (float)(to->at - from->at);
		return std::isnan(*ms) ? cudaErrorNotReady : cudaSuccess;
	});
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t e, unsigned)
{
	return call([&] {
		cudaStream_t s = stream_of(stream);
		if (!s || !e->of)
			return cudaErrorInvalidResourceHandle;
		if (s->in || e->in)
			return wait_captured(s, *e);
		cudaStream_t of = e->of;
		size_t place = e->place;
		return push(s, {[=] { finish(of, place); }, false});
	});
}

/* ---- Graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
	return call([&] {
		cudaStream_t s = stream_of(stream);
		if (!s)
			return cudaErrorInvalidResourceHandle;
		if (s->in)
			return cudaErrorIllegalState;
		s->in.reset(new capture{mode, false, {s}, lists(1)});
		s->list = 0;
		return cudaSuccess;
	});
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	return call([&] {
		cudaStream_t s = stream_of(stream);
		*graph = NULL;
		if (!s || !s->in || s->list != 0)
			return cudaErrorIllegalState;
		std::shared_ptr<capture> c = s->in;
		for (cudaStream_t member : c->member)
			member->in.reset();
		if (c->spoilt)
			return cudaErrorStreamCaptureInvalidated;
		for (size_t i = 1; i < c->nodes.size(); i++)
			if (!is_joined(*c, i)) {
				note("nothing waits for a stream that was captured with another");
				return cudaErrorStreamCaptureUnjoined;
			}
		*graph = new CUgraph_st{std::move(c->nodes)};
		return cudaSuccess;
	});
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
					  unsigned long long)
{
	return call([&] {
		*exec = new CUgraphExec_st{graph->nodes, current};
		size_t nodes = 0;
		for (const std::vector<op> &list : graph->nodes)
			for (const op &o : list)
				nodes += o.run != NULL;
		if (setting("FAKE_CUDA_NODES", 0))
			fprintf(stderr, "fake CUDA: a graph of %zu nodes\n", nodes);
		return cudaSuccess;
	});
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	return call([&] {
		cudaStream_t s = stream_of(stream);
		if (!s || s->on != exec->on)
			return cudaErrorInvalidResourceHandle;
		auto all = std::make_shared<launched>(
			launched{exec->nodes, std::vector<size_t>(exec->nodes.size())});
		for (size_t i = 0; i < exec->nodes[0].size(); i++) {
			cudaError_t e = push(
				s, {[=] { all->advance(0, i + 1); }, exec->nodes[0][i].at_once});
			if (e != cudaSuccess)
				return e;
		}
		return cudaSuccess;
	});
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	return call([&] {
		delete exec;
		return cudaSuccess;
	});
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	return call([&] {
		delete graph;
		return cudaSuccess;
	});
}

/* ---- Copies ---- */

/* Pageable memory: the source is copied at once; the destination is complete on return. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	return call([&] {
		cudaStream_t s = stream_of(stream);
		cudaError_t e =
			s ? check_copy(to, from, bytes, kind) : cudaErrorInvalidResourceHandle;
		if (e != cudaSuccess)
			return e;
		bool reads = memory_where(from, bytes) == PAGEABLE;
		bool writes = memory_where(to, bytes) == PAGEABLE;
		if (s->in && (reads || writes))
			return spoil(*s, "a copy uses memory that is not pinned",
				     cudaErrorStreamCaptureUnsupported);
		if (reads) {
			const char *p = (const char *)from;
			auto kept = std::make_shared<std::vector<char>>(p, p + bytes);
			return enqueue(s, [=] { memcpy(to, kept->data(), bytes); });
		}
		return enqueue(
			s, [=] { memmove(to, from, bytes); }, writes);
	});
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
	return call([&] {
		if (memory_where(p, bytes) != ON_DEVICE)
			return cudaErrorInvalidValue;
		return enqueue(stream, [=] { memset(p, value, bytes); });
	});
}
