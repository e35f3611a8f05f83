# Sends each of $CALLS with $HEADERS by the client that the region names, and prints the statuses.
case $QUOTAD_REGION in
python) exec python3 "$CLIENTS/plain.py" ;;
node) exec node "$CLIENTS/plain.js" ;;
php) exec php "$CLIENTS/plain.php" ;;
esac
printf '%s\n' "$HEADERS" >headers.$QUOTAD_REGION
printf '%s\n' "$CALLS" | while read -r method path; do
	case $method in
	POST) curl -sS -g -o /dev/null -w '%{http_code}\n' -d '{}' -H @headers.$QUOTAD_REGION "$QUOTAD_PROXY$path" ;;
	*) curl -sS -g -o /dev/null -w '%{http_code}\n' -H @headers.$QUOTAD_REGION "$QUOTAD_PROXY$path" ;;
	esac
done
