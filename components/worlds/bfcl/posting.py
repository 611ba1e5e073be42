"""Simulated microblog, after BFCL's function documents of TwitterAPI."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from components.worlds.bfcl.service import Result, Service, ServiceError


class MicroblogService(Service):
    """Service of one account's tweets with comments, retweets and followed users.

    Args:
        config: initial values, any of ``username``, ``password``, ``authenticated``, ``tweets``,
            ``comments``, ``retweets``, ``following_list``, ``tweet_counter``.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        entries = copy.deepcopy(dict(config))
        tweets = {int(key): tweet for key, tweet in entries.get("tweets", {}).items()}
        self._password = entries.get("password", "")
        self.state = {
            "username": entries.get("username", "john"),
            "authenticated": entries.get("authenticated", False),
            "tweets": tweets,
            "comments": {int(key): value for key, value in entries.get("comments", {}).items()},
            "retweets": entries.get("retweets", {}),
            "following_list": entries.get("following_list", []),
            "tweet_counter": entries.get("tweet_counter", len(tweets)),
        }

    def _require_user(self) -> str:
        """Return the name of the user, who must be logged in."""
        if not self.state["authenticated"]:
            raise ServiceError("nobody is logged in: call authenticate_twitter")
        return self.state["username"]  # type: ignore[no-any-return]

    def _tweet(self, tweet_id: int) -> dict[str, Any]:
        if tweet_id not in self.state["tweets"]:
            raise ServiceError(f"there is no tweet {tweet_id}")
        return self.state["tweets"][tweet_id]  # type: ignore[no-any-return]

    def _copy_tweets(self) -> list[dict[str, Any]]:
        return [copy.deepcopy(tweet) for tweet in self.state["tweets"].values()]

    def authenticate_twitter(self, username: str, password: str) -> Result:
        """Log in."""
        matches = (username, password) == (self.state["username"], self._password)
        self.state["authenticated"] = self.state["authenticated"] or matches
        return {"authentication_status": matches}

    def posting_get_login_status(self) -> Result:
        """Return whether the user is logged in."""
        return {"login_status": self.state["authenticated"]}

    def post_tweet(
        self, content: str, tags: list[str] | None = None, mentions: list[str] | None = None
    ) -> Result:
        """Post a tweet."""
        number = self.state["tweet_counter"]
        tweet = {"id": number, "username": self._require_user(), "content": content}
        self.state["tweets"][number] = {**tweet, "tags": tags or [], "mentions": mentions or []}
        self.state["tweet_counter"] += 1
        return copy.deepcopy(self._tweet(number))

    def get_tweet(self, tweet_id: int) -> Result:
        """Return a tweet."""
        return copy.deepcopy(self._tweet(tweet_id))

    def get_user_tweets(self, username: str) -> Result:
        """Return the tweets of a user."""
        tweets = [tweet for tweet in self._copy_tweets() if tweet["username"] == username]
        return {"user_tweets": tweets}

    def search_tweets(self, keyword: str) -> Result:
        """Return the tweets that contain a text."""
        tweets = [tweet for tweet in self._copy_tweets() if keyword in tweet["content"]]
        return {"matching_tweets": tweets}

    def comment(self, tweet_id: int, comment_content: str) -> Result:
        """Comment on a tweet."""
        self._tweet(tweet_id)
        comment = {"username": self._require_user(), "content": comment_content}
        self.state["comments"].setdefault(tweet_id, []).append(comment)
        return {"comment_status": "commented"}

    def get_tweet_comments(self, tweet_id: int) -> Result:
        """Return the comments on a tweet."""
        self._tweet(tweet_id)
        return {"comments": copy.deepcopy(self.state["comments"].get(tweet_id, []))}

    def mention(self, tweet_id: int, mentioned_usernames: list[str]) -> Result:
        """Mention users in a tweet."""
        self._require_user()
        self._tweet(tweet_id)["mentions"] += mentioned_usernames
        return {"mention_status": "mentioned"}

    def retweet(self, tweet_id: int) -> Result:
        """Retweet a tweet; a second time has no effect."""
        self._tweet(tweet_id)
        retweets = self.state["retweets"].setdefault(self._require_user(), [])
        if tweet_id in retweets:
            return {"retweet_status": "retweeted already"}
        retweets.append(tweet_id)
        return {"retweet_status": "retweeted"}

    def follow_user(self, username_to_follow: str) -> Result:
        """Follow a user."""
        self._require_user()
        is_new = username_to_follow not in self.state["following_list"]
        if is_new:
            self.state["following_list"].append(username_to_follow)
        return {"follow_status": is_new}

    def unfollow_user(self, username_to_unfollow: str) -> Result:
        """Stop following a user."""
        self._require_user()
        is_followed = username_to_unfollow in self.state["following_list"]
        if is_followed:
            self.state["following_list"].remove(username_to_unfollow)
        return {"unfollow_status": is_followed}

    def list_all_following(self) -> Result:
        """Return the followed users."""
        self._require_user()
        return {"following_list": [*self.state["following_list"]]}

    def get_user_stats(self, username: str) -> Result:
        """Return the numbers of a user's tweets, followed users and retweets."""
        is_owner = username == self.state["username"]
        return {
            "tweet_count": len(self.get_user_tweets(username)["user_tweets"]),
            "following_count": len(self.state["following_list"]) if is_owner else 0,
            "retweet_count": len(self.state["retweets"].get(username, [])),
        }
