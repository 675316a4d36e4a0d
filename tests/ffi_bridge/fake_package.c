/* A kernel package whose kernels run on host tensors: they fill the rowwise data with a mark.
 *
 * Macros make faulty ones:
 *   FAKE_GETTER        the name of the getter, instead of the one that loaders look for
 *   FAKE_NO_PACKAGE    the getter returns null
 *   FAKE_ABI_VERSION   the version in the table
 *   FAKE_BAD_MANIFEST  the embedded manifest is not JSON
 *   FAKE_UNDEFINED     a symbol is missing
 *   FAKE_SWAPPED       the table is not sorted
 *   FAKE_REPEATED      the table holds the first kernel twice
 *   FAKE_SHORT         the table lacks the second kernel
 *   FAKE_NULL_KERNEL   the second kernel's address is null */
#include <string.h>

#include "ffi_bridge/kernel_package_abi.h"
#include "tests/ffi_bridge/fake_manifest.h"

#ifndef FAKE_GETTER
#define FAKE_GETTER cutedsl_quant_kernel_package
#endif
#ifndef FAKE_ABI_VERSION
#define FAKE_ABI_VERSION CUTEDSL_QUANT_KERNEL_ABI_VERSION
#endif
#ifdef FAKE_BAD_MANIFEST
#define FAKE_MANIFEST "schema"
#else
#define FAKE_MANIFEST "{" FAKE_MANIFEST_FIELDS "}"
#endif

static int Fill(const TVMFFIAny* args, int32_t num_args, int mark) {
  if (num_args != 10 || args[0].type_index != kTVMFFIDLTensorPtr ||
      args[2].type_index != kTVMFFIDLTensorPtr) {
    TVMFFIErrorSetRaisedFromCStr("TypeError", "fake kernel: unexpected arguments");
    return -1;
  }
  const DLTensor* data = (const DLTensor*)args[2].v_ptr;
  memset(data->data, mark, (size_t)(data->shape[0] * data->shape[1]));
  return 0;
}

static int First(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  (void)self;
  (void)result;
  return Fill(args, num_args, FAKE_FIRST_MARK);
}

#if defined(FAKE_NULL_KERNEL) || defined(FAKE_REPEATED) || defined(FAKE_SHORT)
#define Second NULL
#else
static int Second(void* self, const TVMFFIAny* args, int32_t num_args, TVMFFIAny* result) {
  (void)self;
  (void)result;
  return Fill(args, num_args, FAKE_SECOND_MARK);
}
#endif

static const CutedslQuantPackagedKernel kernels[] = {
#if defined(FAKE_SWAPPED)
    {FAKE_SECOND_ID, Second},
    {FAKE_FIRST_ID, First},
#elif defined(FAKE_REPEATED)
    {FAKE_FIRST_ID, First},
    {FAKE_FIRST_ID, First},
#elif defined(FAKE_SHORT)
    {FAKE_FIRST_ID, First},
#else
    {FAKE_FIRST_ID, First},
    {FAKE_SECOND_ID, Second},
#endif
};

static const CutedslQuantKernelPackage package = {FAKE_ABI_VERSION, FAKE_MANIFEST,
                                                  sizeof(kernels) / sizeof(kernels[0]), kernels};

#ifdef FAKE_UNDEFINED
void fake_missing_symbol(void);
#endif

const CutedslQuantKernelPackage* FAKE_GETTER(void) {
#ifdef FAKE_UNDEFINED
  fake_missing_symbol();
#endif
#ifdef FAKE_NO_PACKAGE
  (void)package;
  return NULL;
#else
  return &package;
#endif
}
