/* errors.cc - the names and texts of the fake cudart's errors. */
#include <cuda_runtime_api.h>

static const struct {
	cudaError_t e;
	const char *text;
} error_table[] = {
	{cudaSuccess, "no error"},
	{cudaErrorInvalidValue, "invalid argument"},
	{cudaErrorMemoryAllocation, "out of memory"},
	{cudaErrorInitializationError, "initialization error"},
	{cudaErrorInvalidConfiguration, "invalid configuration argument"},
	{cudaErrorInsufficientDriver,
	 "CUDA driver version is insufficient for CUDA runtime version"},
	{cudaErrorNoDevice, "no CUDA-capable device is detected"},
	{cudaErrorInvalidDevice, "invalid device ordinal"},
	{cudaErrorDeviceUninitialized, "invalid device context"},
	{cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"},
	{cudaErrorInvalidResourceHandle, "invalid resource handle"},
	{cudaErrorNotReady, "device not ready"},
	{cudaErrorLaunchFailure, "unspecified launch failure"},
	{cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"},
	{cudaErrorStreamCaptureInvalidated,
	 "operation failed due to a previous error during capture"},
	{cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"},
	{cudaErrorStreamCaptureIsolation,
	 "dependency created on uncaptured work in another stream"},
	{cudaErrorIllegalState, "the operation cannot be performed in the present state"},
};

const char *cudaGetErrorString(cudaError_t e)
{
	for (auto &row : error_table)
		if (row.e == e)
			return row.text;
	return "unrecognized error code";
}
