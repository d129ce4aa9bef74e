/* A stand-in for libnvidia-ml.so.1 with one card, an idle H200 (numbers: nvidia-smi -q, driver 580.159.04), or STUB_CARDS of them.
 *
 * STUB_REFUSE="nvmlDeviceGetName=3,nvmlInitWithFlags=9" makes those calls answer that error instead;
 * STUB_NAME ("first;second"), STUB_LOST (the index of a card that fell off the bus), STUB_DRIVER, STUB_CORES, STUB_CAPABILITY ("9.0"), STUB_REASONS, STUB_PIDS ("12,13"), STUB_MIG ("1") change what it says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void *device;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
typedef struct { unsigned sms, copy, dec, enc, jpeg, ofa, gslice, cslice; unsigned long long memory_mb; } attributes;
typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci;

static int refused(const char *name) {
    const char *list = getenv("STUB_REFUSE"), *at = list;
    size_t length = strlen(name);
    while (at && *at) {
        if (!strncmp(at, name, length) && at[length] == '=') return atoi(at + length + 1);
        at = strchr(at, ',');
        if (at) at++;
    }
    return 0;
}
static const char *said(const char *variable, const char *usual) { const char *v = getenv(variable); return v ? v : usual; }
static unsigned number(const char *variable, unsigned usual) { const char *v = getenv(variable); return v ? strtoul(v, 0, 0) : usual; }
/* Handles: 1 the first card, 2 its MIG slice, 16 + index the others. */
static int whole_card(device d) { return d != (device)2; }
static unsigned index_of(device d) { return (size_t)d >= 16 ? (unsigned)((size_t)d - 16) : 0; }
static const char *name_of(device d, char *text, unsigned size) {
    const char *at = said("STUB_NAME", "NVIDIA H200"), *next;
    for (unsigned i = index_of(d); i && (next = strchr(at, ';')); i--) at = next + 1;
    snprintf(text, size, "%.*s", (int)strcspn(at, ";"), at);
    return text;
}

#define CALL(name, signature, body) int name signature { int error = refused(#name); if (error) return error; body; return 0; }

CALL(nvmlInitWithFlags, (unsigned flags), (void)flags)
CALL(nvmlShutdown, (void), (void)0)
const char *nvmlErrorString(int code) { (void)code; return "stub error"; }
CALL(nvmlSystemGetDriverVersion, (char *text, unsigned size), snprintf(text, size, "%s", said("STUB_DRIVER", "580.159.04")))
CALL(nvmlSystemGetCudaDriverVersion_v2, (int *version), *version = 13000)
CALL(nvmlSystemGetProcessName, (unsigned pid, char *text, unsigned size), snprintf(text, size, "/usr/bin/python%u", pid))
CALL(nvmlDeviceGetCount_v2, (unsigned *count), *count = number("STUB_CARDS", 1))
CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned index, device *d),
     if (index == number("STUB_LOST", ~0U)) return 15; *d = (device)(size_t)(index ? 16 + index : 1))
CALL(nvmlDeviceGetHandleByUUID, (const char *uuid, device *d),
     if (strcmp(uuid, "GPU-fcdd3975-a188-f16e-478e-b9068b3bcdc7")) return 6; *d = (device)1)
CALL(nvmlDeviceGetName, (device d, char *text, unsigned size),
     if (whole_card(d)) name_of(d, text, size); else snprintf(text, size, "NVIDIA H200 MIG 1g.18gb"))
CALL(nvmlDeviceGetUUID, (device d, char *text, unsigned size),
     if (index_of(d)) snprintf(text, size, "GPU-0000000%u-a188-f16e-478e-b9068b3bcdc7", index_of(d) % 10);
     else snprintf(text, size, "%s", whole_card(d) ? "GPU-fcdd3975-a188-f16e-478e-b9068b3bcdc7" : "MIG-11111111-2222-3333-4444-555555555555"))
CALL(nvmlDeviceGetPciInfo_v3, (device d, pci *p), (void)d; memset(p, 0, sizeof *p); strcpy(p->bus_id, "00000000:00:06.0"))
CALL(nvmlDeviceGetCudaComputeCapability, (device d, int *major, int *minor), (void)d;
     sscanf(said("STUB_CAPABILITY", "9.0"), "%d.%d", major, minor))
CALL(nvmlDeviceGetNumGpuCores, (device d, unsigned *cores), (void)d; *cores = number("STUB_CORES", 16896))
CALL(nvmlDeviceGetMemoryBusWidth, (device d, unsigned *bits), (void)d; *bits = 6144)
CALL(nvmlDeviceGetMaxClockInfo, (device d, unsigned kind, unsigned *mhz), (void)d; *mhz = kind == 2 ? 3201 : 1980)
CALL(nvmlDeviceGetClockInfo, (device d, unsigned kind, unsigned *mhz), (void)d; *mhz = kind == 2 ? 3201 : 345)
CALL(nvmlDeviceGetMemoryInfo, (device d, memory *m), (void)d; m->total = 143771ULL << 20; m->used = 5ULL << 20; m->free = m->total - m->used)
CALL(nvmlDeviceGetEnforcedPowerLimit, (device d, unsigned *mw), (void)d; *mw = 700000)
CALL(nvmlDeviceGetPowerManagementLimit, (device d, unsigned *mw), (void)d; *mw = 650000)
CALL(nvmlDeviceGetPowerManagementDefaultLimit, (device d, unsigned *mw), (void)d; *mw = 700000)
CALL(nvmlDeviceGetPowerUsage, (device d, unsigned *mw), (void)d; *mw = 78820)
CALL(nvmlDeviceGetTemperature, (device d, unsigned sensor, unsigned *c), (void)d; (void)sensor; *c = 37)
CALL(nvmlDeviceGetMigMode, (device d, unsigned *now, unsigned *next), (void)d; *now = *next = number("STUB_MIG", 0))
CALL(nvmlDeviceGetMaxMigDeviceCount, (device d, unsigned *count), (void)d; *count = 7)
CALL(nvmlDeviceGetMigDeviceHandleByIndex, (device d, unsigned index, device *slice), (void)d; if (index) return 6; *slice = (device)2)
CALL(nvmlDeviceGetAttributes_v2, (device d, attributes *a), (void)d; memset(a, 0, sizeof *a); a->sms = 16; a->memory_mb = 16384)
CALL(nvmlDeviceGetEccMode, (device d, unsigned *now, unsigned *next), (void)d; *now = *next = 1)
CALL(nvmlDeviceGetUtilizationRates, (device d, utilization *u), (void)d; u->gpu = 0; u->memory = 0)
CALL(nvmlDeviceGetCurrentClocksEventReasons, (device d, unsigned long long *mask), (void)d; *mask = number("STUB_REASONS", 1))
CALL(nvmlDeviceGetCurrentClocksThrottleReasons, (device d, unsigned long long *mask), (void)d; *mask = number("STUB_REASONS", 1))
CALL(nvmlDeviceGetGraphicsRunningProcesses_v3, (device d, unsigned *count, process *list), (void)d; (void)list; *count = 0)

int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *count, process *list) {
    const char *at = said("STUB_PIDS", "");
    unsigned room = *count, n = 0;
    int error = refused("nvmlDeviceGetComputeRunningProcesses_v3");
    (void)d;
    if (error) return error;
    for (; *at; at += strspn(at, ",")) {
        unsigned pid = strtoul(at, (char **)&at, 10);
        if (list && n < room) list[n] = (process){pid, n ? ~0ULL : 512ULL << 20, ~0U, ~0U};
        n++;
    }
    *count = n;
    return n > room ? 7 : 0;
}
