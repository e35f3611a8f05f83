#!/bin/sh
# Fetches the first page of a region's chart with curl.
curl -sS --fail-with-body "${QUOTAD_PROXY}youtube/v3/videos?part=snippet&chart=mostPopular&regionCode=$QUOTAD_REGION&maxResults=50" | tr , '\n'
