# Linters. clang-tidy and cppcheck see all C outside tests/; the layout, the walls and shellcheck all there is.
LINT_C    := $(COMMON_C) $(DB_C) $(API_C) $(AGENT_C) $(BENCH_C) $(wildcard api/main.c agent/main.c tools/*.c)
LINT_TEXT := $(foreach d,common db api agent bench tests tools,$(call rwildcard,$(d),%.c %.h))
SCRIPTS    = cli/completion.bash $(shell grep -lE '^\#!.*\bbash\b' $(wildcard tools/* cli/* .ci/* tests/*/*.sh bench/*.sh))
CLANG_FORMAT ?= clang-format-14
CLANG_TIDY   ?= clang-tidy-14

.PHONY: lint lint-all lint-walls lint-format lint-tidy lint-cppcheck lint-shell
lint: ## walls, layout, clang-tidy, cppcheck, shellcheck
	@tools/install-packages build lint
	@$(MAKE) --no-print-directory -k lint-all
lint-all: lint-walls lint-format lint-shell lint-cppcheck lint-tidy
	@echo "lint: clean"
lint-walls:
	@tools/lint-walls
lint-format:
	@echo "  clang-format"; rc=0; for f in $(LINT_TEXT); do $(CLANG_FORMAT) --dry-run -Werror $$f >/dev/null 2>&1 || \
	    { echo "$$f: not as .clang-format has it: $(CLANG_FORMAT) -i $$f"; rc=1; }; done; exit $$rc
# The flags, also for editors that speak to clangd.
$(BUILD)/compile_flags.txt: Makefile mk/lint.mk
	@mkdir -p $(@D) && printf '%s\n' $(filter-out -I% -g -O2,$(ALL_CFLAGS)) $(filter-out -Werror,$(WARNINGS)) \
	    -I$(CURDIR) -I$(abspath $(BUILD)/gen) >$@
# Largest files first, so that the two jobs end together. Standard error is its chatter: shown when it failed.
lint-tidy: $(BUILD)/compile_flags.txt $(GEN_H)
	@echo "  clang-tidy"; ls -S $(LINT_C) | xargs -P 2 -n 2 $(CLANG_TIDY) --quiet -p $(BUILD) 2>$(BUILD)/clang-tidy.log || \
	    { grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -' $(BUILD)/clang-tidy.log; exit 1; }
lint-cppcheck: $(GEN_H)
	@echo "  cppcheck"; mkdir -p $(BUILD)/cppcheck && cppcheck --quiet -j 2 --cppcheck-build-dir=$(BUILD)/cppcheck --std=c11 --inline-suppr \
	    --enable=warning,performance,portability --suppress=missingIncludeSystem --suppress=varFuncNullUB --error-exitcode=1 -D_GNU_SOURCE -I. -I$(BUILD)/gen $(LINT_C)
lint-shell:
	@echo "  shellcheck"; shellcheck -x $(SCRIPTS)
