# Tests: unit (Criterion), NFS over real sockets (Criterion and libnfs), end to end (Python's unittest, standard library).
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

-include $(patsubst %.o,%.d,$(call objects,$(UNIT_C) $(NFS_C) $(TLIB_C)))
