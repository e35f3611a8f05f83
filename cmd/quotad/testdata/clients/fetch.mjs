// Fetches a region's chart with Google's own client, whose endpoint is the proxy. It takes
// no path in rootUrl: so the run token is its key.
import { youtube as connect } from "@googleapis/youtube";

const youtube = connect({ version: "v3", auth: process.env.QUOTAD_TOKEN, rootUrl: new URL("/", process.env.QUOTAD_PROXY).href });
let pageToken;
do {
  const { data } = await youtube.videos.list({
    part: ["snippet"], chart: "mostPopular", regionCode: process.env.QUOTAD_REGION, maxResults: 50, pageToken,
  });
  console.log(data.items.length, "videos");
  pageToken = data.nextPageToken;
} while (pageToken);
