# SPDX-License-Identifier: Apache-2.0
# The image for `ramalama --image remoting` will be built here.
