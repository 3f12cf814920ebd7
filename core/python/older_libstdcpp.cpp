// Functions that a newer compiler calls and that the libstdc++ of manylinux_2_28 (GCC 8) does not export, in terms of
// those that it does. Only with ISRLU_PORTABLE. Linking libstdc++ statically is no way out: libgcc's unwinder and
// libstdc++'s threads then need glibc 2.35 (_dl_find_object).
#include <new>

#define ISRLU_NAMED(symbol) __asm__(symbol)
#define ISRLU_HIDDEN __attribute__((visibility("hidden")))

extern "C" {
// std::exception_ptr's copy constructor and destructor, exported by every libstdc++ since GCC 4.4.
void isrlu_copy(void* self, const void* other) ISRLU_NAMED("_ZNSt15__exception_ptr13exception_ptrC1ERKS0_");
void isrlu_destroy(void* self) ISRLU_NAMED("_ZNSt15__exception_ptr13exception_ptrD1Ev");

// GCC 11 and later inline the two and call these instead. nanobind's exception translator does so.
ISRLU_HIDDEN void isrlu_add_reference(void* self) ISRLU_NAMED("_ZNSt15__exception_ptr13exception_ptr9_M_addrefEv");
ISRLU_HIDDEN void isrlu_release(void* self) ISRLU_NAMED("_ZNSt15__exception_ptr13exception_ptr10_M_releaseEv");
// std::allocator calls this for a size that overflows.
[[noreturn]] ISRLU_HIDDEN void isrlu_bad_length() ISRLU_NAMED("_ZSt28__throw_bad_array_new_lengthv");

void isrlu_add_reference(void* self)
{
    void* copy;  // an exception_ptr is one pointer; a copy that is never destroyed is one more reference
    isrlu_copy(&copy, self);
}
void isrlu_release(void* self) { isrlu_destroy(self); }
void isrlu_bad_length() { throw std::bad_array_new_length(); }
}
