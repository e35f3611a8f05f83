import os, urllib.error, urllib.request

headers = dict(line.split(": ", 1) for line in os.environ["HEADERS"].split("\n") if line)
for call in os.environ["CALLS"].split("\n"):
    method, path = call.split(" ", 1)
    data = b"{}" if method == "POST" else None
    request = urllib.request.Request(os.environ["QUOTAD_PROXY"] + path, data, {**headers, "Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            print(answer.status)
    except urllib.error.HTTPError as refused:
        print(refused.code)
