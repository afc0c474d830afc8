# libFuzzer harnesses, one a decoder: tests/fuzz/fuzz_NAME.c, its corpus in tests/fuzz/corpus/NAME.
FUZZ_SECONDS ?= 60
FUZZ_C := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ   := $(patsubst tests/fuzz/fuzz_%.c,$(BUILD)/fuzz/%,$(FUZZ_C))
CLANG  ?= clang-14

$(BUILD)/fuzz/%: tests/fuzz/fuzz_%.c $(AGENT_C) $(COMMON_C) $(GEN_O)
	$(call say,FUZZ,$@)mkdir -p $(@D) && $(CLANG) $(filter-out $(SANFLAGS),$(ALL_CFLAGS)) \
	    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -o $@ $^ $(LIBS_AGENT)

# Those of the control plane (its walls are its own).
$(BUILD)/fuzz/api_%: tests/fuzz/fuzz_api_%.c $(API_C) $(DB_C) $(COMMON_C)
	$(call say,FUZZ,$@)mkdir -p $(@D) && $(CLANG) $(filter-out $(SANFLAGS),$(ALL_CFLAGS)) \
	    -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined -o $@ $^ $(LIBS_API)

.PHONY: fuzz fuzz-all $(addprefix fuzz-run-,$(notdir $(FUZZ)))
fuzz: ## every fuzz harness for FUZZ_SECONDS
	@tools/install-packages build fuzz
	@$(MAKE) --no-print-directory fuzz-all
fuzz-all: $(addprefix fuzz-run-,$(notdir $(FUZZ)))
# New inputs are kept in the build folder; those worth keeping are copied to the corpus by hand.
$(addprefix fuzz-run-,$(notdir $(FUZZ))): fuzz-run-%: $(BUILD)/fuzz/%
	@mkdir -p $(BUILD)/fuzz/new/$* && cd $(BUILD)/fuzz && ./$* -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	    -artifact_prefix=$*- new/$* $(wildcard $(CURDIR)/tests/fuzz/corpus/$*)
