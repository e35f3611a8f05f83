# Fetches a region's chart with Google's own client, whose endpoint is the proxy.
import json, os, sys
from googleapiclient import discovery

with open(sys.argv[1]) as file:
    document = dict(json.load(file), rootUrl=os.environ["QUOTAD_PROXY"])
youtube = discovery.build_from_document(document, developerKey="none")

call = youtube.videos().list(part="snippet", chart="mostPopular", regionCode=os.environ["QUOTAD_REGION"], maxResults=50)
while call is not None:
    answer = call.execute(num_retries=5)  # after seconds of its own, not those of Retry-After
    call = youtube.videos().list_next(call, answer)
