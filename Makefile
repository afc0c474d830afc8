# Spillway. `make up` sets everything up and runs the example; `make test` sets up and tests. `make help` lists the rest.
#
# Everything is built out of tree into $(BUILD). Sources are found by wildcard: a new .c file needs no line here.
# SAN=asan|tsan builds with sanitizers into a folder of its own; V=1 shows the commands.

SAN     ?=
BUILD   ?= build$(if $(SAN),-$(SAN))
CC      ?= gcc
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0

PKGS    := libmicrohttpd jansson sqlite3 libtirpc libcurl gnutls libsodium
# Evaluated when first used: the targets that install packages do so in a make of their own before.
PKG_CFLAGS = $(eval PKG_CFLAGS := $$(or $$(shell pkg-config --cflags $(PKGS) | sed 's/-I/-isystem /g'),$$(error packages are missing: run tools/install-packages build)))$(PKG_CFLAGS)

WARNINGS := -Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
            -Wcast-qual -Wvla
, := ,
SANFLAGS := $(if $(filter asan,$(SAN)),-fsanitize=address$(,)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)$(if $(filter tsan,$(SAN)),-fsanitize=thread -fno-omit-frame-pointer)
CFLAGS  ?= -O2 -g
ALL_CFLAGS = -std=c17 -D_GNU_SOURCE -DSPILLWAY_VERSION='"$(VERSION)"' -pthread $(CFLAGS) $(SANFLAGS) \
             -I. -I$(BUILD)/gen $(PKG_CFLAGS)

LIBS_COMMON := -lm -lmicrohttpd -ljansson -lgnutls -lsodium -lm
LIBS_API    := $(LIBS_COMMON) -lsqlite3
LIBS_AGENT  := $(LIBS_COMMON) -lcurl -ltirpc
LIBS_BENCH  := $(LIBS_COMMON) -lsqlite3

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)';)

rwildcard = $(foreach d,$(wildcard $(1)/*),$(call rwildcard,$(d),$(2))$(filter $(2),$(d)))
objects   = $(patsubst %.c,$(BUILD)/%.o,$(1))

COMMON_C := $(call rwildcard,common,%.c)
DB_C     := $(call rwildcard,db,%.c)
API_C    := $(filter-out api/main.c,$(call rwildcard,api,%.c))
AGENT_C  := $(filter-out agent/main.c,$(call rwildcard,agent,%.c))
BENCH_C  := $(call rwildcard,bench,%.c)
RPC_X    := $(call rwildcard,agent,%.x)

# rpcgen's output: types and XDR of the small procedures.
GEN_H := $(patsubst agent/%.x,$(BUILD)/gen/agent/%.h,$(RPC_X))
GEN_O := $(patsubst agent/%.x,$(BUILD)/gen/agent/%_xdr.o,$(RPC_X))

COMMON_O := $(call objects,$(COMMON_C))
DB_O     := $(call objects,$(DB_C))
API_O    := $(call objects,$(API_C))
AGENT_O  := $(call objects,$(AGENT_C)) $(GEN_O)

PROGRAMS := $(if $(wildcard api/main.c),$(BUILD)/spillwayd) $(if $(wildcard agent/main.c),$(BUILD)/spillway-agent) \
            $(if $(BENCH_C),$(BUILD)/spillway-bench) $(BUILD)/nfs-proof

.DEFAULT_GOAL := all
.SECONDARY:
.PHONY: all help
all: $(PROGRAMS) ## build the programs

# Passed to a make of our own, which uses all processors unless -j was given.
jobs = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc))

help:
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile mk/*.mk | sort | expand -t 10

$(BUILD)/%.o: %.c
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(ALL_CFLAGS) $(WARNINGS) -MMD -MP -c -o $@ $<

$(BUILD)/gen/%.h: %.x
	$(call say,GEN,$@)mkdir -p $(@D) && rm -f $@ && rpcgen -C -h -o $@ $<
# rpcgen includes its header by the name of its input, so it runs beside a copy.
$(BUILD)/gen/%_xdr.c: %.x $(BUILD)/gen/%.h
	$(call say,GEN,$@)cp $< $(@D)/ && cd $(@D) && rm -f $(@F) && rpcgen -C -c -o $(@F) $(<F)
$(BUILD)/gen/%_xdr.o: $(BUILD)/gen/%_xdr.c
	$(call say,CC,$<)$(CC) $(ALL_CFLAGS) -w -MMD -MP -c -o $@ $<
$(call objects,$(AGENT_C)): | $(GEN_H)

$(BUILD)/spillwayd: $(BUILD)/api/main.o $(API_O) $(DB_O) $(COMMON_O)
	$(call say,LD,$@)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(LIBS_API)
$(BUILD)/spillway-agent: $(BUILD)/agent/main.o $(AGENT_O) $(COMMON_O)
	$(call say,LD,$@)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(LIBS_AGENT)
# What `make up` proves volumes with.
$(BUILD)/nfs-proof: $(BUILD)/tools/nfs-proof.o $(COMMON_O)
	$(call say,LD,$@)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ -lnfs $(LIBS_COMMON)
$(BUILD)/spillway-bench: $(call objects,$(BENCH_C)) $(COMMON_O)
	$(call say,LD,$@)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(LIBS_BENCH)

include $(wildcard mk/*.mk)
-include $(patsubst %.o,%.d,$(COMMON_O) $(DB_O) $(API_O) $(AGENT_O) $(call objects,$(BENCH_C)) \
           $(BUILD)/api/main.o $(BUILD)/agent/main.o $(BUILD)/tools/nfs-proof.o)
