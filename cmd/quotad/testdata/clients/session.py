# Fetches three pages of a region's chart with requests, whose Retry waits as long as Retry-After says.
import os

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

session = requests.Session()
session.mount("http://", HTTPAdapter(max_retries=Retry(total=3)))
for page in "123":
    answer = session.get(
        os.environ["QUOTAD_PROXY"] + "youtube/v3/videos",
        params={"part": "snippet", "chart": "mostPopular", "regionCode": os.environ["QUOTAD_REGION"], "pageToken": page},
        timeout=30,
    )
    if not answer.ok:
        raise SystemExit(answer.text)
