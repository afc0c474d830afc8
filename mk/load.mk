# Load on the agent's transport, a plain program: the way to run it under TSan (make SAN=tsan load).
LOAD_SECONDS ?= 20
$(BUILD)/tests/rpc-load: $(BUILD)/tests/load/rpc_load.o $(AGENT_O) $(COMMON_O)
	$(call say,LD,$@)mkdir -p $(@D) && $(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(LIBS_AGENT)

.PHONY: load
load: $(BUILD)/tests/rpc-load ## the transport under load for LOAD_SECONDS, for sanitizers
	$(BUILD)/tests/rpc-load $(LOAD_SECONDS)

-include $(BUILD)/tests/load/rpc_load.d
