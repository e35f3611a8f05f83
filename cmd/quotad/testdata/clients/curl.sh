#!/bin/sh
# Fetches three pages of a region's chart with curl, which waits as long as Retry-After says.
for page in 1 2 3; do
	curl -sS --fail-with-body --retry 3 \
		"${QUOTAD_PROXY}youtube/v3/videos?part=snippet&chart=mostPopular&regionCode=$QUOTAD_REGION&pageToken=$page" || exit
done
