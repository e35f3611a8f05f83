# Fetches a region's chart with Google's own client, whose endpoint is the proxy.
import inspect, json, os, sys
from googleapiclient import discovery

endpoint = os.environ["QUOTAD_PROXY"]
if "client_options" in inspect.signature(discovery.build).parameters:
    youtube = discovery.build("youtube", "v3", developerKey="none", client_options={"api_endpoint": endpoint})
else:  # an old one has its endpoint in the discovery document, which it would fetch
    with open(sys.argv[1]) as file:
        document = dict(json.load(file), rootUrl=endpoint)
    youtube = discovery.build_from_document(document, developerKey="none")

call = youtube.videos().list(part="snippet", chart="mostPopular", regionCode=os.environ["QUOTAD_REGION"], maxResults=50)
while call is not None:
    answer = call.execute()
    print(len(answer["items"]), "videos")
    call = youtube.videos().list_next(call, answer)
