// No Python: a test that looks for kernels compiled by TransformerEngine's own back end finds none.
// It does so only if NVTE_ENABLE_CUTEDSL_BACKEND is set.
#ifndef CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_PYTHON_H_
#define CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_PYTHON_H_

struct PyObject;
#define Py_None (static_cast<PyObject*>(nullptr))
#define Py_XDECREF(object) static_cast<void>(object)

inline int Py_IsInitialized() { return 0; }
inline void PyErr_Print() {}
inline PyObject* PyImport_ImportModule(const char*) { return nullptr; }
template <typename... Arguments>
PyObject* PyObject_CallMethod(Arguments...) {
  return nullptr;
}

#endif  // CUTEDSL_QUANT_TESTS_NVTE_UPSTREAM_STUBS_PYTHON_H_
