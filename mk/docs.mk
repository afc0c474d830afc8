# Pages that are written from the program's tables. Their tests compare, or write when told to.
.PHONY: docs
docs: $(BUILD)/tests/unit-api ## write docs/refused.md anew from the property and route tables
	$(Q)SPILLWAY_WRITE_DOCS=1 $< --filter 'refused/*' >/dev/null
