# Tests: unit (Criterion), NFS over real sockets (Criterion and libnfs), end to end (Python's unittest, standard library).
# tools/run-tests runs them; SPILLWAY_BUILD tells them which programs to test.
UNIT_C := $(call rwildcard,tests/unit,%.c)
NFS_C  := $(call rwildcard,tests/nfs,%.c)
TLIB_C := $(call rwildcard,tests/lib,%.c)

# One unit binary a program, since api/ and agent/ never meet: tests/unit/{common,db,api,agent}/*.c.
unit_objects = $(call objects,$(filter tests/unit/$(1)/%,$(UNIT_C)))
UNIT_TESTS := $(foreach d,common db api agent,$(if $(filter tests/unit/$(d)/%,$(UNIT_C)),$(BUILD)/tests/unit-$(d)))
NFS_TEST := $(if $(NFS_C),$(BUILD)/tests/nfs)
$(BUILD)/tests/unit-common: $(call unit_objects,common) $(COMMON_O)
$(BUILD)/tests/unit-db: $(call unit_objects,db) $(DB_O) $(COMMON_O)
$(BUILD)/tests/unit-api: $(call unit_objects,api) $(API_O) $(DB_O) $(COMMON_O)
$(BUILD)/tests/unit-agent: $(call unit_objects,agent) $(AGENT_O) $(COMMON_O)
$(BUILD)/tests/nfs: $(call objects,$(NFS_C) $(TLIB_C)) $(COMMON_O)
$(UNIT_TESTS) $(NFS_TEST):
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ -lcriterion -lnfs $(sort $(LIBS_API) $(LIBS_AGENT))

# Load from a plain main, for ThreadSanitizer: tests/threads/{common,db,api,agent}/NAME.c, a program each.
THREADS_C := $(call rwildcard,tests/threads,%.c)
THREADS_TESTS := $(patsubst tests/threads/%.c,$(BUILD)/tests/threads/%,$(THREADS_C))
$(BUILD)/tests/threads/common/%: $(BUILD)/tests/threads/common/%.o $(COMMON_O)
	$(call say,LD,$@)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(LIBS_COMMON)
$(BUILD)/tests/threads/db/%: $(BUILD)/tests/threads/db/%.o $(DB_O) $(COMMON_O)
	$(call say,LD,$@)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(LIBS_API)
$(BUILD)/tests/threads/api/%: $(BUILD)/tests/threads/api/%.o $(API_O) $(DB_O) $(COMMON_O)
	$(call say,LD,$@)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(LIBS_API)
$(BUILD)/tests/threads/agent/%: $(BUILD)/tests/threads/agent/%.o $(AGENT_O) $(COMMON_O)
	$(call say,LD,$@)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(LIBS_AGENT)

$(call objects,$(filter tests/unit/agent/% tests/threads/agent/%,$(UNIT_C) $(THREADS_C)) $(NFS_C) $(TLIB_C)): | $(GEN_H)

.PHONY: test asan tsan test-programs threads-programs test-built
test: ## set up and run all tests
	@tools/install-packages build run test
	@$(MAKE) --no-print-directory $(jobs) test-built
asan: ## the same, built with AddressSanitizer and UBSan
	@tools/install-packages build run test
	@$(MAKE) --no-print-directory $(jobs) SAN=asan test-built
# Criterion cannot start under TSan: the drivers are the ordinary build's, the programs are TSan's.
tsan: ## loads, NFS and end-to-end tests with programs built with ThreadSanitizer
	@tools/install-packages build run test
	@$(MAKE) --no-print-directory $(jobs) SAN= test-programs
	@$(MAKE) --no-print-directory $(jobs) SAN=tsan all threads-programs
	@SPILLWAY_BUILD=build-tsan SPILLWAY_DRIVERS=build V=$(V) tools/run-tests threads nfs e2e

threads-programs: $(THREADS_TESTS)
test-programs: all $(UNIT_TESTS) $(NFS_TEST) $(THREADS_TESTS)
test-built: test-programs
	@SPILLWAY_BUILD=$(BUILD) V=$(V) tools/run-tests $(SUITES)

-include $(patsubst %.o,%.d,$(call objects,$(UNIT_C) $(NFS_C) $(TLIB_C) $(THREADS_C)))
