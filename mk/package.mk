# SPDX-License-Identifier: Apache-2.0
# Packages of what is committed, for the release of Slurm that is installed here
deb: ## Debian packages into $(BUILD)/deb
	@packaging/build-deb $(BUILD)/deb
rpm: ## RPM packages into $(BUILD)/rpm
	@packaging/build-rpm $(BUILD)/rpm
.PHONY: deb rpm
