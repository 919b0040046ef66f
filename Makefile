# SPDX-License-Identifier: Apache-2.0
# DLRover for Slurm. `make help` lists the targets.
PREFIX ?= /usr/local
DESTDIR ?=
BUILD ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
MPICC ?= mpicc
CUDA_HOME ?= /usr/local/cuda
CFLAGS ?= $(if $(SAN),-O1,-O2) -g
VERSION := $(shell cat VERSION)
LIBEXECDIR = $(PREFIX)/libexec/dlrover
LIBDIR ?= $(PREFIX)/lib
PLUGINDIR ?= $(LIBDIR)/slurm
Q := $(if $(V),,@)

DLR_WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla \
  -Wformat=2 -Wundef -Wno-unused-parameter -Wno-sign-compare -Wno-missing-field-initializers
# What distributions build with. The plugin is not bound at once: some of Slurm's programs lack functions that it calls
# in others.
DLR_HARDEN := $(if $(SAN)$(filter -O0,$(CFLAGS)),,-fstack-protector-strong \
  $(if $(findstring FORTIFY_SOURCE,$(CFLAGS) $(CPPFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
DLR_LINK_HARDEN := -Wl,-z,relro,-z,now
DLR_CFLAGS = -std=gnu11 -fPIC -pthread -D_GNU_SOURCE -I. $(DLR_WARN) $(if $(WERROR),-Werror) \
  $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer) \
  -DDLR_VERSION='"$(VERSION)"' -DDLR_LIBEXECDIR='"$(LIBEXECDIR)"'
DLR_LDFLAGS = -pthread $(if $(SAN),-fsanitize=$(SAN))

PROGRAMS := $(addprefix $(BUILD)/,dlrover dlrover-keeper dlrover-supervisor dlrover-agent \
  dlrover-data dlrover-rendezvous dlrover-slurm dlrover-stderr dlrover-relay dlrover-gpu dlrover-stacks)
EXAMPLES := $(addprefix $(BUILD)/examples/,mpi_train mpi_plain ckpt_hello)
all: $(PROGRAMS) $(BUILD)/libdlrover.so $(BUILD)/libdlrover-mpi.so $(BUILD)/spank_dlrover.so $(EXAMPLES) ## build everything
.PHONY: all
.DELETE_ON_ERROR:

include mk/libraries.mk mk/build.mk mk/install.mk mk/package.mk mk/check.mk mk/gates.mk mk/fuzz.mk

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18
clean: ## remove build/
	rm -rf $(BUILD)
.PHONY: help clean
-include $(shell find $(BUILD) -type f -name '*.d' 2>/dev/null)
