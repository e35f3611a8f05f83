#!/bin/sh
# Fetches the pages of a list with GitHub's command.
GH_ENTERPRISE_TOKEN=none gh api --paginate "${QUOTAD_PROXY}repos/o/r/issues"
