# SPDX-License-Identifier: Apache-2.0
# Each folder of mk/layers becomes a static library, $(BUILD)/lib/FOLDER.a, of all its sources but those of programs:
# main.c and ..._main.c. What has a main() is linked with the libraries of its folder and of what that may see.
#
# Tests, fuzz targets and programs of bench/ say what else they want in a line "/* build: WORD... */" near their beginning:
#   sees=FOLDER,...       other folders than their own's (tests/unit/FOLDER)
#   wrap=SYMBOL,...       replaced: -Wl,--wrap
#   needs=PROGRAM,...     built before, under $(BUILD)
#   lib=NAME,...          foreign libraries of their own
#   stand-ins             its own functions count where a source that is linked has some of the same name
#   mpi                   compiled and linked with MPI's wrapper
# With -cuda (wrap-cuda=, needs-cuda=) only where there are CUDA's headers.
$(BUILD)/layers.mk: mk/layers mk/layers.known mk/layers.awk
	@mkdir -p $(@D)
	@awk -f mk/layers.awk mk/layers mk/layers.known >$@
UNIT_SOURCES := $(sort $(shell find tests/unit tests/faults -name 'test_*.c'))
OTHER_MAINS := $(wildcard tests/fuzz/fuzz_*.c bench/*.c) tests/gpu/gpu.c
$(BUILD)/words.mk: $(UNIT_SOURCES) $(OTHER_MAINS) mk/words.awk
	@mkdir -p $(@D)
	@awk -f mk/words.awk $(UNIT_SOURCES) $(OTHER_MAINS) >$@
include $(BUILD)/layers.mk $(BUILD)/words.mk

comma := ,
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
sources = $(sort $(filter-out %main.c,$(wildcard $(1)/*.c)))
# What the folders $(1) may see, the highest first
reverse = $(if $(1),$(call reverse,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
FROM_TOP := $(call reverse,$(FOLDERS))
seen = $(filter $(foreach folder,$(1),$(SEES_$(folder))),$(FROM_TOP))
HAVE_SOURCES := $(foreach folder,$(FOLDERS),$(if $(call sources,$(folder)),$(folder)))
libs = $(patsubst %,$(or $(2),$(BUILD))/lib/%.a,$(filter $(HAVE_SOURCES),$(call seen,$(1))))
# Without libdw dlrover-stacks is built all the same, and says so where it is asked for frames of compiled code.
NO_DW := $(if $(wildcard /usr/include/elfutils/libdwfl.h /usr/local/include/elfutils/libdwfl.h),,dw)
foreign = $(addprefix -l,$(sort $(filter-out mpi spank cuda $(NO_DW),$(foreach folder,$(call seen,$(1)),$(OWN_$(folder))))))
# $(call says,FILE,WORD): what FILE says of it
says = $(subst $(comma), ,$(patsubst $(2)=%,%,$(filter $(2)=%,$(SAYS_$(1))))$(if $(CUDA_HEADER),$(patsubst $(2)-cuda=%, %,$(filter $(2)-cuda=%,$(SAYS_$(1))))))
place = $(patsubst tests/unit/%,%,$(patsubst %/,%,$(dir $(1))))
sight = $(filter $(call place,$(1)) $(call says,$(1),sees),$(FOLDERS))
words_flags = $(addprefix -Wl$(comma)--wrap=,$(call says,$(1),wrap)) $(if $(filter stand-ins,$(SAYS_$(1))),-Wl$(comma)--allow-multiple-definition)
words_libs = $(call foreign,$(call sight,$(1))) $(addprefix -l,$(call says,$(1),lib))

# $(call library,WHERE,FOLDER,SOURCES): made anew when another list of files is there, too. It only names the objects.
# make 4.3 does not always take the newline off what $(file <) reads.
define library
ifneq ($$(strip $$(file <$(1)/lib/$(2).of)),$(strip $(3)))
$$(shell mkdir -p $(dir $(1)/lib/$(2)))
$$(file >$(1)/lib/$(2).of,$(3))
endif
$(1)/lib/$(2).a: $(patsubst %.c,$(1)/obj/%.o,$(3)) $(1)/lib/$(2).of
	$$(Q)rm -f $$@ && ar rcs --thin $$@ $$(filter %.o,$$^)
endef
$(foreach folder,$(HAVE_SOURCES),$(eval $(call library,$(BUILD),$(folder),$(call sources,$(folder)))))

# Beside the tests of a folder lies what they share.
RIGS := $(shell find tests/unit tests/faults tests/support tests/gpu -name '*.c' ! -name 'test_*' -printf '%h\n' | sort -u)
rig_sources = $(sort $(filter-out $(1)/test_% $(if $(CUDA_HEADER),,$(1)/fake_cuda%),$(wildcard $(1)/*.c)))
$(foreach folder,$(RIGS),$(eval $(call library,$(BUILD),$(folder),$(call rig_sources,$(folder)))))
rigs = $(patsubst %,$(BUILD)/lib/%.a,$(filter $(patsubst %/,%,$(dir $(1))),$(RIGS)) tests/support)
