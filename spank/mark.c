/* SPDX-License-Identifier: Apache-2.0 */
/* What `dlrover doctor` looks for in the plugin: the release of Slurm that it loads
 * into, which Slurm itself reads from plugin_version.
 */
#include <slurm/spank.h>

#define DIGITS(number) '0' + (number) / 10 % 10, '0' + (number) % 10

__attribute__((used)) static const struct {
    char name[20], release[8];
} mark = {"@(#)spank_dlrover ",
          {DIGITS(SLURM_VERSION_NUMBER >> 16 & 0xff), '.',
           DIGITS(SLURM_VERSION_NUMBER >> 8 & 0xff)}};
