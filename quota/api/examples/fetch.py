# Asks quotad inside a pass before its only call: exit 75 if it is denied.
import http.client, os, socket, sys

class Quotad(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.environ["QUOTAD_SOCKET"])

def acquire(operation):
    quotad = Quotad("quotad", timeout=5)
    quotad.request("POST", "/v1/acquire", "operation=" + operation, {
        "Authorization": "Bearer " + os.environ["QUOTAD_TOKEN"],
        "Content-Type": "application/x-www-form-urlencoded"})
    answer = quotad.getresponse()
    if answer.status == 429:
        sys.exit(75)
    if answer.status != 200:
        sys.exit(f"quotad: {answer.status} {answer.read().decode()}")

acquire("videos.list")
# granted: the call
