// oneDNN is not built for the thread sanitizer, which then sees the contents of its caches but not
// what guards them.
#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_suppressions();   // NOLINT: the sanitizer's name
extern "C" const char* __tsan_default_suppressions() {  // NOLINT
  return "called_from_lib:libdnnl.so\n"
         "race:libdnnl.so\n"
         "race:^dnnl::\n";
}
#endif
