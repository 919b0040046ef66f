# SPDX-License-Identifier: Apache-2.0
# Tests and gates.
$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o
	$(call link,$(UNIT_LIBS) -lcmocka)
