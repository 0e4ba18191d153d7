/* Preprocessed by the build script, to learn whether the library can be used. */
#include <intel-ipsec-mb.h>
#if !defined(IMB_VERSION_NUM) || IMB_VERSION_NUM < 0x10300
#error "libipsec-mb is older than 1.3"
#endif
