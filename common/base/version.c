/* SPDX-License-Identifier: Apache-2.0 */
/* What `dlrover doctor` looks for in each program and library, without running it. */
__attribute__((used)) static const char mark[] = "@(#)dlrover " DLR_VERSION;
