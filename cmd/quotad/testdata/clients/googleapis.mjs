// Fetches a region's chart with Google's own client, whose endpoint is the proxy. It takes
// no path in rootUrl: so the run token is its key.
import { google } from "googleapis";

const youtube = google.youtube({ version: "v3", auth: process.env.QUOTAD_TOKEN, rootUrl: new URL("/", process.env.QUOTAD_PROXY).href });
let pageToken;
do {
  const { data } = await youtube.videos.list({
    part: ["snippet"], chart: "mostPopular", regionCode: process.env.QUOTAD_REGION, maxResults: 50, pageToken,
  });
  pageToken = data.nextPageToken;
} while (pageToken);
