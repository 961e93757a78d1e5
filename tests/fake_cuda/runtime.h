/* runtime.h - shared by the files of the fake cudart. */
#ifndef RUNTIME_H
#define RUNTIME_H

#include "fake.h"

namespace fake
{
/* Device memory can be accessed between these two; they nest. */
void memory_open();
void memory_close();

enum where {
	PAGEABLE,
	ON_PINNED,
	ON_DEVICE,
	NOWHERE
}; /* nowhere: device memory, but not all of it */
where memory_where(const void *p, size_t bytes);
size_t memory_total();

/* Makes the process's context on that GPU, if it has none. */
void make_context(int on);
/* Waits until all streams of the device are done. */
cudaError_t finish_all();
/* The error that cudaGetLastError will return. */
cudaError_t remember(cudaError_t e);

/* A call of the runtime: returns an error if no call is possible now, and remembers errors. */
template <class F> cudaError_t call(F body, bool unsafe = false)
{
	cudaError_t e = enter(unsafe);
	return remember(e != cudaSuccess ? e : body());
}
template <class F> cudaError_t call_unsafe(F body)
{
	return call(body, true);
}

} // namespace fake

#endif
